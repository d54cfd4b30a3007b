"""Deletes what has expired: raw captures first, then contents, at last whole runs.

Any number of workers may do so at the same time: each run is looked at again once its row is locked. A run that is
going on, or goes on again, is never touched, nor is what waits for a decision.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django.db import DatabaseError, InterfaceError, transaction
from django.db.models import Exists, OuterRef, QuerySet

from playground.erasure import delete_contents, delete_raw
from playground.models import EngineAction, Run, WireExchangeRecord
from playground.retention import Retention, ended_before
from playground.search import compact_index, forget_runs
from playground.services.apply_privacy import apply_privacy, runs_to_level

logger = logging.getLogger(__name__)

Kind = Literal["runs", "contents", "raw", "levels"]
# So many runs in one go, so that whoever calls can do other things between.
AT_ONCE = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Purged:
    """How many runs lost what: `runs` are gone, `levels` were brought down to their privacy level late. `more` tells
    that some are left."""

    runs: int = 0
    contents: int = 0
    raw: int = 0
    levels: int = 0
    more: bool = False

    @property
    def any(self) -> bool:
        return bool(self.runs or self.contents or self.raw or self.levels)


def expired(*, retention: Retention, now: datetime) -> dict[Kind, QuerySet[Run]]:
    """The runs of which something has expired, in the order in which it is to be deleted."""
    contents = _older(retention.contents, now).filter(contents_deleted_at=None)
    captured = Exists(WireExchangeRecord.objects.filter(run=OuterRef("pk")))
    raw = _older(retention.raw, now).filter(captured, capture_raw=True, raw_deleted_at=None)
    if retention.metadata_days is not None:
        # The older ones go whole.
        younger = {"ended_at__gte": ended_before(now, retention.metadata_days)}
        contents, raw = contents.filter(**younger), raw.filter(**younger)
    return {
        "runs": _older(retention.metadata_days, now),
        "contents": contents,
        "raw": raw,
        "levels": runs_to_level(now=now),
    }


def _older(days: int | None, now: datetime) -> QuerySet[Run]:
    if days is None:
        return Run.objects.none()
    return Run.objects.filter(ended_at__lt=ended_before(now, days))


def purge(*, now: datetime, retention: Retention | None = None, at_once: int = AT_ONCE) -> Purged:
    """Delete what has expired by `retention`, else by the site's settings, of at most `at_once` runs for each kind."""
    retention = retention or Retention.of_site()
    due = expired(retention=retention, now=now)

    def clear(run: Run) -> None:
        delete_contents(run, kept_days=retention.contents, now=now)

    def uncapture(run: Run) -> None:
        delete_raw(run, kept_days=retention.raw, now=now)

    steps: dict[Kind, Callable[[int], bool]] = {
        "runs": lambda run_id: once_locked(due["runs"], run_id, remove_run),
        "contents": lambda run_id: once_locked(due["contents"], run_id, clear),
        "raw": lambda run_id: once_locked(due["raw"], run_id, uncapture),
        "levels": lambda run_id: apply_privacy(run_id=run_id, now=now),
    }
    counts: dict[str, int] = {}
    more = False
    for kind, step in steps.items():
        ids = list(due[kind].order_by("pk").values_list("pk", flat=True)[: at_once + 1])
        more = more or len(ids) > at_once
        counts[kind] = sum(unless_it_fails(step, run_id) for run_id in ids[:at_once])
    purge_engine_actions(retention=retention, now=now)
    purged = Purged(**counts, more=more)
    if purged.any:
        compact_index()
        logger.info("purged: %s", purged)
    return purged


def purge_engine_actions(*, retention: Retention, now: datetime) -> None:
    """What other engines proposed is kept from its decision as long as a run from its end."""
    decided = EngineAction.objects.exclude(decision="")
    if retention.metadata_days is not None:
        decided.filter(decided_at__lt=ended_before(now, retention.metadata_days)).delete()
    if retention.contents is not None:
        held = decided.filter(decided_at__lt=ended_before(now, retention.contents))
        held.exclude(content__isnull=True, reason="").update(content=None, reason="")


@transaction.atomic
def once_locked(due: QuerySet[Run], run_id: int, delete: Callable[[Run], object]) -> bool:
    """Whether the run was still due when nobody else could change it any more."""
    run = due.select_for_update(skip_locked=True, of=("self",)).filter(pk=run_id).first()
    if run is None:
        return False
    delete(run)
    return True


def unless_it_fails(step: Callable[[int], bool], run_id: int) -> bool:
    """A fault in one run must not keep the others; a database that is away keeps them all."""
    try:
        return step(run_id)
    except (DatabaseError, InterfaceError):
        raise
    except Exception:
        logger.exception("run %s could not be purged, it is tried again", run_id)
        return False


def remove_run(run: Run) -> None:
    """Delete all of a run but its usage records."""
    forget_runs([run.pk])
    run.delete()
