"""Ends runs that waited for a decision in vain, and actions of other engines that did."""

from __future__ import annotations

import logging
from datetime import datetime

from django.db import transaction

from llmcore.actions.proposals import DecisionKind
from llmcore.runs.outcome import EndReason, RunStatus
from playground.approvals import close_waiting, names_of
from playground.claims import end_columns
from playground.figures import times_of
from playground.models import EngineAction, ProposedAction, Run
from playground.rows import load_contents, load_steps
from playground.run_findings import findings_of
from playground.search import index_run
from playground.services.apply_privacy import apply_privacy_at_end
from playground.services.decide_engine_action import close_engine_action
from playground.wakeups import wake_on_commit

logger = logging.getLogger(__name__)


def expire_actions(*, now: datetime) -> None:
    """Any number of workers may do so at the same time."""
    overdue = ProposedAction.objects.filter(decision="", expires_at__lte=now)
    for run_id in sorted(set(overdue.values_list("run_id", flat=True))):
        expire_run(run_id, now=now)
    for action in EngineAction.objects.filter(decision="", expires_at__lte=now):
        close_engine_action(action, DecisionKind.EXPIRE, by=None, now=now)


@transaction.atomic
def expire_run(run_id: int, *, now: datetime) -> bool:
    """End the run if an action of it is overdue; False where somebody decided, or ended it, before."""
    row = Run.objects.select_for_update().filter(pk=run_id, status=RunStatus.AWAITING_APPROVAL)
    run = row.first()
    if run is None or not ProposedAction.objects.filter(run=run, decision="", expires_at__lte=now).exists():
        return False
    closed = close_waiting(run, DecisionKind.EXPIRE, by=None, now=now)
    row.update(
        **end_columns(
            reason=EndReason.APPROVAL_EXPIRED,
            detail=f"Nobody decided about {names_of(closed)} in time. It was not run.",
            now=now,
        ),
        **times_of(run, now=now, waiting=True),
        findings=findings_of(run, load_steps(run_id), load_contents(run_id), reason=EndReason.APPROVAL_EXPIRED),
    )
    apply_privacy_at_end(run_id=run_id, now=now)
    index_run(run_id)
    wake_on_commit(run_id)
    logger.info("run %s ended: nobody decided about its proposed actions in time", run_id)
    return True
