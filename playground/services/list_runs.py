"""Finds runs for the list: a page of them in a stable order, and how many there are of each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.contrib.auth.models import User
from django.db.models import Case, Count, F, OuterRef, QuerySet, Subquery, Sum, Value, When
from django.db.models.functions import Coalesce, Greatest, Left, Lower, StrIndex, Substr
from django.utils import timezone

from llmcore.runs.outcome import EndReason, RunStatus
from playground.access import visible_runs
from playground.filters import EVERYTHING, RunFilters, narrowed
from playground.models import Run
from playground.search.query import terms_of

PAGE_SIZE = 25
EXCERPT_CHARS = 400
# Of a text, before what was looked for in it.
BEFORE_CHARS = 60
# Large, and no row shows them whole.
LARGE = ("prompt", "request", "plan", "findings", "answer", "error", "note")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPage:
    """Some runs, the newest first. `newer` and `older` are the ids to go on from, `None` at either end."""

    runs: tuple[Run, ...]
    newer: int | None = None
    older: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunCounts:
    """How many runs pass the filters and what they cost, as far as that is known.

    The counts of a status are those of all filters but the status, so that they say what another one would give;
    those of an outcome likewise.
    """

    total: int
    cost: Decimal | None
    of_status: dict[RunStatus, int]
    of_outcome: dict[EndReason, int]

    @property
    def of_any_status(self) -> int:
        return sum(self.of_status.values())


def list_runs(
    *,
    user: User,
    filters: RunFilters = EVERYTHING,
    before: int | None = None,
    after: int | None = None,
    size: int = PAGE_SIZE,
    now: datetime | None = None,
) -> RunPage:
    """The runs older than the id `before`, or those next newer than `after`, or the newest.

    Ids only grow, so a page keeps its runs while new ones arrive.
    """
    now = now or timezone.now()
    found = _rows(narrowed(visible_runs(user), filters, user=user, now=now), filters.search)
    if after is not None:
        runs = list(found.filter(pk__gt=after).order_by("pk")[: size + 1])
        more_newer, more_older = len(runs) > size, True
        if not more_newer:
            # Fewer than a page are left: the newest page whole, rather than a short one.
            return list_runs(user=user, filters=filters, size=size, now=now)
        runs = runs[:size][::-1]
    else:
        older = found if before is None else found.filter(pk__lt=before)
        runs = list(older.order_by("-pk")[: size + 1])
        more_newer, more_older = before is not None, len(runs) > size
        runs = runs[:size]
        if before is not None and not runs:
            return list_runs(user=user, filters=filters, size=size, now=now)
    return RunPage(
        runs=tuple(runs),
        newer=runs[0].pk if runs and more_newer else None,
        older=runs[-1].pk if runs and more_older else None,
    )


def runs_by_id(*, user: User, ids: Collection[int], search: str = "") -> tuple[Run, ...]:
    """Those of the runs that exist and that `user` may see."""
    return tuple(_rows(visible_runs(user), search).filter(pk__in=ids).order_by("-pk"))


def count_runs(*, user: User, filters: RunFilters, now: datetime | None = None) -> RunCounts:
    others = filters.without("status", "outcome")
    runs = narrowed(visible_runs(user), others, user=user, now=now or timezone.now())
    of_status: Counter[RunStatus] = Counter()
    of_outcome: Counter[EndReason] = Counter()
    total, costs = 0, []
    for status, reason, count, cost in (
        runs.order_by().values_list("status", "reason").annotate(Count("pk"), Sum("cost"))
    ):
        in_status, in_outcome = filters.status in (None, status), filters.outcome in (None, reason)
        if in_outcome:
            of_status[RunStatus(status)] += count
        if in_status and reason:
            of_outcome[EndReason(reason)] += count
        if in_status and in_outcome:
            total += count
            costs.append(cost)
    known = [cost for cost in costs if cost is not None]
    return RunCounts(
        total=total, cost=sum(known, Decimal(0)) if known else None, of_status=of_status, of_outcome=of_outcome
    )


def _rows(runs: QuerySet[Run], search: str) -> QuerySet[Run]:
    """What a row shows; `prompt_found` and `answer_found` are those texts around the longest word of `search`."""
    words = [word for term in terms_of(search) for word in term.words]
    return (
        runs.select_related("user")
        .prefetch_related("tags")
        .defer(*LARGE)
        .annotate(
            prompt_start=Left("prompt", EXCERPT_CHARS),
            answer_start=Left("answer", EXCERPT_CHARS),
            note_start=Left("note", EXCERPT_CHARS),
            permit_place=F("partial__waiting"),
            queue_position=Case(When(status=RunStatus.QUEUED, then=_queued_before() + 1)),
            prompt_found=_around("prompt", max(words, key=len, default="")),
            answer_found=_around("answer", max(words, key=len, default="")),
        )
    )


def _queued_before() -> Coalesce:
    """How many runs have waited for a worker for longer, whoever started them."""
    longer = Run.objects.filter(status=RunStatus.QUEUED, queued_at__lt=OuterRef("queued_at")).order_by()
    return Coalesce(Subquery(longer.values("status").annotate(n=Count("pk")).values("n")), 0)


def _around(field: str, word: str) -> Substr | Value:
    if not word:
        return Value("")
    return Substr(field, Greatest(StrIndex(Lower(field), Value(word)) - BEFORE_CHARS, 1), EXCERPT_CHARS)
