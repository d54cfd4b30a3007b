"""How long runs are kept: raw captures, contents and metadata expire one after the other."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Self

from django.core.exceptions import ImproperlyConfigured

from llmcore.conf import settings

SETTINGS = {
    "raw_days": "LLM_RAW_RETENTION_DAYS",
    "content_days": "LLM_CONTENT_RETENTION_DAYS",
    "metadata_days": "LLM_METADATA_RETENTION_DAYS",
}
# Longer is meant as "for good", and a date so far back can't be computed.
MOST_DAYS = 36_500


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention:
    """For how many days after its end a run keeps its raw captures, its contents and its metadata.

    `None` keeps them as long as what comes after them, and metadata for good. Nothing may be kept longer than what
    explains it: ValueError.
    """

    raw_days: int | None
    content_days: int | None
    metadata_days: int | None

    def __post_init__(self) -> None:
        for field in fields(self):
            days = getattr(self, field.name)
            if days is not None and (type(days) is not int or not 0 <= days <= MOST_DAYS):
                raise ValueError(f"{field.name} is {days!r}, not a number of days from 0 to {MOST_DAYS:,}, or None")
        given = [(field.name, days) for field in fields(self) if (days := getattr(self, field.name)) is not None]
        for (shorter, least), (longer, most) in pairwise(given):
            if least > most:
                raise ValueError(f"{shorter} ({least}) is more than {longer} ({most}): that would already be deleted")

    @classmethod
    def of_site(cls) -> Self:
        """As the site's settings have it; ImproperlyConfigured where they contradict each other."""
        try:
            return cls(**{name: getattr(settings, setting) for name, setting in SETTINGS.items()})
        except ValueError as error:
            names = ", ".join(SETTINGS.values())
            raise ImproperlyConfigured(f"{error}. Look at the settings {names}.") from error

    @property
    def raw(self) -> int | None:
        """How long raw captures are really kept: until all else of their run goes, at the latest."""
        return next((days for days in (self.raw_days, self.content_days, self.metadata_days) if days is not None), None)

    @property
    def contents(self) -> int | None:
        return self.metadata_days if self.content_days is None else self.content_days


def ended_before(now: datetime, days: int) -> datetime:
    """The end of the youngest run whose data of `days` have expired."""
    return now - timedelta(days=days)
