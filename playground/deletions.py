"""What was deleted of a run, in words."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone
from django.utils.formats import date_format

from playground.models import Run
from playground.numbers import plural
from playground.privacy import PrivacyLevel


def raw_deletion(run: Run) -> str:
    """What became of the captured requests and responses; empty where nothing was deleted."""
    if run.raw_deleted_at is None:
        return ""
    when = f"The raw exchange was deleted on {day(run.raw_deleted_at)}"
    return f"{when}: raw captures are kept for {plural(run.raw_kept_days, 'day')}." if run.raw_kept_days else f"{when}."


def contents_deletion(run: Run) -> str:
    """What became of everything that was said; empty where it is there."""
    if run.contents_deleted_at is None:
        return ""
    if run.contents_kept_days is None:
        return (
            f"Contents were not kept: the run was made at the privacy level “{PrivacyLevel.METADATA.value}”, which "
            "leaves figures only."
        )
    when = f"The contents were deleted on {day(run.contents_deleted_at)}"
    return (
        f"{when}: contents are kept for {plural(run.contents_kept_days, 'day')}."
        if run.contents_kept_days
        else f"{when}."
    )


def redaction(run: Run) -> str:
    """What was masked in the contents that are there; empty where they are as they were."""
    if run.redacted_at is None or run.contents_deleted_at is not None:
        return ""
    level = PrivacyLevel.REDACTED.value
    return f"Whatever looks like a secret was masked when the run ended: it was made at the privacy level “{level}”."


def deletions(run: Run) -> list[str]:
    """All of it."""
    return list(filter(None, (raw_deletion(run), contents_deletion(run), redaction(run))))


def day(moment: datetime) -> str:
    return date_format(timezone.localtime(moment), "j M Y")
