"""The periodic job of the workers: finds runs whose worker was lost, and runs that no worker was told of.

Any number of workers may sweep at the same time: each change is a compare-and-set on the row.
"""

from __future__ import annotations

import logging
from datetime import datetime

from django.db import transaction
from kombu.exceptions import OperationalError

from llmcore.runs.outcome import EndReason, RunStatus
from llmcore.site_budgets import give_back_lost
from playground.claims import end_columns
from playground.figures import times_of
from playground.interruption import interruption_detail, unsafe_detail
from playground.models import Run, RunPartial
from playground.queue import hand_over, patience
from playground.rows import load_contents, load_steps
from playground.run_findings import findings_of
from playground.search import index_run
from playground.services.apply_privacy import apply_privacy_at_end
from playground.services.cancel_run import cancelled_by
from playground.services.expire_actions import expire_actions
from playground.wakeups import wake_on_commit

logger = logging.getLogger(__name__)


def sweep(*, now: datetime) -> None:
    """Mark lost runs as interrupted and give back what their calls had reserved, end those that wait for a decision in
    vain, hand over forgotten ones again, and remove text that is no longer streamed."""
    overdue = Run.objects.filter(lease_until__lt=now)
    for run_id, attempt in list(overdue.filter(status=RunStatus.RUNNING).values_list("pk", "attempt")):
        if interrupt(run_id, attempt, now=now):
            give_back_lost(run_id=run_id, now=now)
    give_back_lost(now=now)
    expire_actions(now=now)
    stale = RunPartial.objects.exclude(run__status=RunStatus.RUNNING)
    # A deletion takes the lock of writers on SQLite, even one of nothing.
    if stale.exists():
        stale.delete()
    for run in overdue.filter(status=RunStatus.QUEUED).only("queued_at", "lease_until"):
        try:
            hand_over_again(run, now=now)
        except OperationalError as error:
            logger.warning("the broker is away, waiting runs are handed over later: %s", error)
            break


@transaction.atomic
def interrupt(run_id: int, attempt: int, *, now: datetime) -> bool:
    """End the run whose lease is over; False where its worker renewed it, or another sweep was first."""
    row = Run.objects.select_for_update().filter(
        pk=run_id, attempt=attempt, status=RunStatus.RUNNING, lease_until__lt=now
    )
    run = row.first()
    if run is None:
        return False
    steps = load_steps(run_id)
    cause = f"The worker {run.worker} was lost."
    if run.cancel_requested_at:
        reason = EndReason.CANCELLED
        detail = " ".join(filter(None, (cancelled_by(run.cancelled_by), cause, unsafe_detail(steps))))
    else:
        reason = EndReason.INTERRUPTED
        detail = interruption_detail(cause, steps)
    row.update(
        **end_columns(reason=reason, detail=detail, now=now),
        **times_of(run, now=now, waiting=False),
        findings=findings_of(run, steps, load_contents(run_id), reason=reason),
    )
    RunPartial.objects.filter(run_id=run_id).delete()
    apply_privacy_at_end(run_id=run_id, now=now)
    index_run(run_id)
    wake_on_commit(run_id)
    logger.warning("run %s was interrupted: its worker %s was not heard of any more", run_id, run.worker)
    return True


def hand_over_again(run: Run, *, now: datetime) -> bool:
    """Tell the workers of a run that none has claimed; False where one has meanwhile, or another sweep was first."""
    waiting = Run.objects.filter(pk=run.pk, status=RunStatus.QUEUED, lease_until=run.lease_until)
    if not waiting.update(lease_until=now + patience(queued_at=run.queued_at, now=now)):
        return False
    try:
        hand_over(run.pk)
    except OperationalError:
        # Nobody was told, so it isn't waited for.
        soon = now + patience(queued_at=now, now=now)
        Run.objects.filter(pk=run.pk, status=RunStatus.QUEUED).update(lease_until=soon)
        raise
    logger.info("run %s waits since %s: handed over again", run.pk, run.queued_at)
    return True
