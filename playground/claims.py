"""Which worker drives a run: the claim, its lease, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, QuerySet

from llmcore.conf import settings
from llmcore.runs.outcome import STATUS_OF, EndReason, RunStatus
from playground.figures import milliseconds
from playground.models import Run
from playground.queue import patience
from playground.wakeups import wake_on_commit


class ClaimLost(Exception):
    """The run is no longer ours: another worker, the reaper or a person ended this claim."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """The right to drive `run` (as it was claimed, with its user) in its `attempt`: it holds while the lease is renewed
    and nobody ended the run."""

    run: Run
    attempt: int
    claimed_at: datetime

    @property
    def run_id(self) -> int:
        return self.run.pk

    @property
    def row(self) -> QuerySet[Run]:
        """The run's row as long as the claim holds, else nothing. Every write goes through it."""
        return Run.objects.filter(pk=self.run_id, attempt=self.attempt, status=RunStatus.RUNNING)


def lease_end(now: datetime) -> datetime:
    return now + timedelta(seconds=settings.LLM_LEASE_S)


def claim_run(*, run_id: int, worker: str, now: datetime) -> Claim | None:
    """Make `worker` the driver of a queued run; `None` where it isn't queued (any more)."""
    waiting = Run.objects.filter(pk=run_id, status=RunStatus.QUEUED)
    run = waiting.select_related("user").first()
    if run is None:
        return None
    waited_ms = max(milliseconds(now - run.queued_at), 0.0)
    columns = {
        "status": RunStatus.RUNNING,
        "attempt": run.attempt + 1,
        "worker": worker,
        "lease_until": lease_end(now),
        "started_at": run.started_at or now,
        "queue_ms": (run.queue_ms or 0.0) + waited_ms,
    }
    # Of several workers who have read it, only one finds it in this attempt: that needs no lock.
    if not waiting.filter(attempt=run.attempt).update(**columns, revision=F("revision") + 1):
        return None
    for name, value in columns.items():
        setattr(run, name, value)
    wake_on_commit(run_id)
    return Claim(run=run, attempt=run.attempt, claimed_at=now)


def end_columns(*, reason: EndReason, detail: str, now: datetime) -> dict[str, Any]:
    """The columns of `Run` that every end sets; a released claim no longer holds."""
    return {
        "status": STATUS_OF[reason],
        "reason": reason,
        "detail": detail,
        "ended_at": now,
        "lease_until": None,
        "suspended_at": None,
        "revision": F("revision") + 1,
    }


def suspend_columns(*, now: datetime) -> dict[str, Any]:
    """The columns of `Run` that make it wait for a decision; a released claim no longer holds."""
    return {
        "status": RunStatus.AWAITING_APPROVAL,
        "lease_until": None,
        "suspended_at": now,
        "suspensions": F("suspensions") + 1,
    }


def queue_columns(*, since: datetime, now: datetime) -> dict[str, Any]:
    """The columns of `Run` that put it back into the queue, where it has waited `since`; all that says how it ended
    is taken back."""
    return {
        "status": RunStatus.QUEUED,
        "reason": "",
        "detail": "",
        "error": None,
        "answer": "",
        "findings": [],
        "ended_at": None,
        "suspended_at": None,
        "queued_at": since,
        "lease_until": now + patience(queued_at=now, now=now),
        "cancel_requested_at": None,
        "cancelled_by": None,
        "revision": F("revision") + 1,
    }
