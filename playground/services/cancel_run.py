"""Stops a run: at once where no worker has it, else by asking its worker, which looks several times a second."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F

from llmcore.actions.proposals import DecisionKind
from llmcore.runs.outcome import EndReason, RunStatus
from playground.approvals import close_waiting
from playground.claims import end_columns
from playground.figures import times_of
from playground.models import Run
from playground.search import index_run
from playground.services.apply_privacy import apply_privacy_at_end
from playground.wakeups import wake_on_commit

NOT_DRIVEN = (RunStatus.QUEUED, RunStatus.AWAITING_APPROVAL)


@transaction.atomic
def cancel_run(*, run: Run, by: User | None, now: datetime) -> bool:
    """Whether there was something to cancel: a run that has ended stays as it is. Whoever asks first is named."""
    row = Run.objects.select_for_update().filter(pk=run.pk)
    current = row.get()
    if current.status in NOT_DRIVEN:
        close_waiting(current, DecisionKind.WITHDRAW, by=by, now=now)
        row.update(
            **end_columns(reason=EndReason.CANCELLED, detail=cancelled_by(by), now=now),
            **times_of(current, now=now, waiting=True),
            cancel_requested_at=now,
            cancelled_by=by,
        )
        apply_privacy_at_end(run_id=run.pk, now=now)
        index_run(run.pk)
        wake_on_commit(run.pk)
        return True
    if current.status == RunStatus.RUNNING:
        if current.cancel_requested_at is None:
            row.update(cancel_requested_at=now, cancelled_by=by, revision=F("revision") + 1)
            wake_on_commit(run.pk)
        return True
    return False


def cancelled_by(user: User | None) -> str:
    return f"Cancelled by {user.get_username()}." if user else "Cancelled."
