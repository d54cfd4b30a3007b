"""Privacy levels: what this site stores of what its runs say."""

from __future__ import annotations

from enum import StrEnum

from django.core.exceptions import ImproperlyConfigured

from llmcore.conf import settings


class PrivacyLevel(StrEnum):
    """What of a run's contents stays when it has ended: all, all without what looks like a secret, or nothing.

    Until then a run keeps what it needs to go on with; figures, digests and sizes stay at every level.
    """

    FULL = "full"
    REDACTED = "redacted"
    METADATA = "metadata"


def site_level() -> PrivacyLevel:
    """The level of the runs that are started now; each run keeps the one that it was started at."""
    try:
        return PrivacyLevel(settings.LLM_PRIVACY_LEVEL)
    except ValueError:
        levels = ", ".join(level.value for level in PrivacyLevel)
        raise ImproperlyConfigured(
            f"LLM_PRIVACY_LEVEL is {settings.LLM_PRIVACY_LEVEL!r}, not one of: {levels}."
        ) from None


def raw_capture_refused() -> str:
    """Why raw requests and responses can't be captured on this site; empty where they can."""
    allowed, level = settings.LLM_RAW_CAPTURE, site_level()
    if allowed is None and level is not PrivacyLevel.FULL:
        return f"This site stores runs at the privacy level “{level.value}”, which excludes raw captures."
    if allowed is False:
        return "This site doesn't allow raw captures."
    return ""
