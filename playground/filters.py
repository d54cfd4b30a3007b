"""What the list of runs can be narrowed to, and how that becomes a query."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, Self

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.utils import timezone

from llmcore.runs.outcome import EndReason, RunStatus
from playground.models import Run
from playground.search import found_runs, runs_made_with
from playground.services.served_models import served_models

MINE = "mine"


class Period(StrEnum):
    """A stretch of time up to now."""

    TODAY = "today"
    DAY = "24h"
    WEEK = "7d"
    MONTH = "30d"

    def start(self, now: datetime) -> datetime:
        match self:
            case Period.TODAY:
                return timezone.localtime(now).replace(hour=0, minute=0, second=0, microsecond=0)
            case Period.DAY:
                return now - timedelta(days=1)
            case Period.WEEK:
                return now - timedelta(days=7)
            case Period.MONTH:
                return now - timedelta(days=30)


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """What runs are made with: a skill, snippet or configuration, or a version of it. In an address: snippet-2-1."""

    kind: str
    object_id: int
    number: int | None = None

    @classmethod
    def read(cls, text: str) -> Self:
        """ValueError where `text` names none."""
        if not (found := _MADE.fullmatch(text)):
            raise ValueError(f"{text!r} names no skill, snippet or configuration")
        return cls(kind=found[1], object_id=int(found[2]), number=int(found[3]) if found[3] else None)

    def __str__(self) -> str:
        return "-".join(str(part) for part in (self.kind, self.object_id, self.number) if part is not None)


_MADE = re.compile(r"(configuration|skill|snippet)-([0-9]{1,18})(?:-([0-9]{1,9}))?")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFilters:
    """What the list is narrowed to; the empty value of each is no restriction.

    `configuration` is a slug, `who` an id of a user or MINE. `since` and `until` are whole days of the site's time
    zone, both included. Costs are US dollars; a run without a known cost is in no range. `failed` asks for runs in
    which something did, be it one tool call.
    """

    search: str = ""
    status: RunStatus | None = None
    outcome: EndReason | None = None
    configuration: str = ""
    model: str = ""
    tool: str = ""
    who: str = ""
    period: Period | None = None
    since: date | None = None
    until: date | None = None
    tag: str = ""
    cost_from: Decimal | None = None
    cost_to: Decimal | None = None
    failed: bool = False
    made_with: Made | None = None

    @property
    def any(self) -> bool:
        return self != EVERYTHING

    def without(self, *names: str) -> Self:
        """These filters taken back."""
        cleared: dict[str, Any] = {field.name: field.default for field in fields(self) if field.name in names}
        return replace(self, **cleared)


EVERYTHING = RunFilters()


def narrowed(runs: QuerySet[Run], filters: RunFilters, *, user: User, now: datetime) -> QuerySet[Run]:
    """Those of `runs` that pass all of `filters`; "mine" are those of `user`. A run that was served by a fallback is a
    run of either model."""
    equal = {
        "status": filters.status,
        "reason": filters.outcome,
        "configuration__slug": filters.configuration,
        "tools__name": filters.tool,
        "tags__name": filters.tag,
        "user_id": user.pk if filters.who == MINE else filters.who,
        "cost__gte": filters.cost_from,
        "cost__lte": filters.cost_to,
        **_times(filters, now),
    }
    runs = runs.filter(**{name: value for name, value in equal.items() if value not in (None, "")})
    if filters.model:
        served = [path for path, name in served_models().items() if name == filters.model]
        runs = runs.filter(Q(model_name=filters.model) | Q(served_by__in=served))
    if filters.failed:
        runs = runs.filter(FAILED)
    if made := filters.made_with:
        runs = runs_made_with(runs, made.kind, made.object_id, made.number)
    return found_runs(runs, filters.search) if filters.search else runs


FAILED = Q(tool_errors__gt=0) | Q(error__isnull=False) | Q(status=RunStatus.FAILED)


def _times(filters: RunFilters, now: datetime) -> dict[str, Any]:
    """Dates that a person chose take the place of a period."""
    if filters.since is None and filters.until is None:
        return {"created_at__gte": filters.period and filters.period.start(now)}
    return {
        "created_at__gte": filters.since and _midnight(filters.since),
        "created_at__lt": filters.until and _midnight(filters.until + timedelta(days=1)),
    }


def _midnight(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min))
