"""Finds runs for the list: a page of them in a stable order, and how many there are of each status."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import Count, QuerySet
from django.db.models.functions import Left

from llmcore.runs.outcome import RunStatus
from playground.access import visible_runs
from playground.models import Run

PAGE_SIZE = 25
EXCERPT_CHARS = 400
# Large, and no row shows them whole.
LARGE = ("prompt", "request", "plan", "findings", "answer", "error")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFilters:
    """What the list is narrowed to; the empty value of each is no restriction. `configuration` is a slug."""

    status: RunStatus | None = None
    configuration: str = ""
    mine: bool = False

    @property
    def any(self) -> bool:
        return bool(self.status or self.configuration or self.mine)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPage:
    """Some runs, the newest first. `newer` and `older` are the ids to go on from, `None` at either end."""

    runs: tuple[Run, ...]
    newer: int | None = None
    older: int | None = None


def list_runs(
    *,
    user: User,
    filters: RunFilters = RunFilters(),
    before: int | None = None,
    after: int | None = None,
    size: int = PAGE_SIZE,
) -> RunPage:
    """The runs older than the id `before`, or those next newer than `after`, or the newest.

    Ids only grow, so a page keeps its runs while new ones arrive.
    """
    found = _rows(_filtered(user, filters))
    if after is not None:
        runs = list(found.filter(pk__gt=after).order_by("pk")[: size + 1])
        more_newer, more_older = len(runs) > size, True
        if not more_newer:
            # Fewer than a page are left: the newest page whole, rather than a short one.
            return list_runs(user=user, filters=filters, size=size)
        runs = runs[:size][::-1]
    else:
        older = found if before is None else found.filter(pk__lt=before)
        runs = list(older.order_by("-pk")[: size + 1])
        more_newer, more_older = before is not None, len(runs) > size
        runs = runs[:size]
        if before is not None and not runs:
            return list_runs(user=user, filters=filters, size=size)
    return RunPage(
        runs=tuple(runs),
        newer=runs[0].pk if runs and more_newer else None,
        older=runs[-1].pk if runs and more_older else None,
    )


def runs_by_id(*, user: User, ids: Collection[int]) -> tuple[Run, ...]:
    """Those of the runs that exist and that `user` may see."""
    return tuple(_rows(visible_runs(user)).filter(pk__in=ids).order_by("-pk"))


def count_by_status(*, user: User, filters: RunFilters) -> dict[RunStatus, int]:
    """How many runs of each status there are, whatever status the list is narrowed to."""
    every = RunFilters(configuration=filters.configuration, mine=filters.mine)
    counts = _filtered(user, every).order_by().values_list("status").annotate(Count("pk"))
    return {RunStatus(status): count for status, count in counts}


def _filtered(user: User, filters: RunFilters) -> QuerySet[Run]:
    runs = visible_runs(user)
    if filters.status is not None:
        runs = runs.filter(status=filters.status)
    if filters.configuration:
        runs = runs.filter(configuration__slug=filters.configuration)
    if filters.mine:
        runs = runs.filter(user_id=user.pk)
    return runs


def _rows(runs: QuerySet[Run]) -> QuerySet[Run]:
    return (
        runs.select_related("user")
        .defer(*LARGE)
        .annotate(prompt_start=Left("prompt", EXCERPT_CHARS), answer_start=Left("answer", EXCERPT_CHARS))
    )
