"""Decides about a proposed action: a compare-and-set bound to the digest of what the decider was shown."""

from __future__ import annotations

import logging
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from llmcore.actions.proposals import DecisionKind
from llmcore.runs.outcome import RunStatus
from playground.access import why_not_decide
from playground.approvals import close_action
from playground.claims import queue_columns
from playground.figures import approval_ms
from playground.models import ProposedAction, Run
from playground.queue import hand_over_on_commit
from playground.wakeups import wake_on_commit

logger = logging.getLogger(__name__)


class DecisionConflict(Exception):
    """There is nothing to decide (any more) of what the decider was shown; the text says why."""


class MayNotDecide(Exception):
    """This user can't decide about this action; the text says why."""


@transaction.atomic
def decide_action(
    *,
    run: Run,
    action_id: int,
    digest: str,
    kind: DecisionKind,
    by: User,
    reason: str = "",
    again: bool = False,
    now: datetime | None = None,
) -> ProposedAction:
    """Approve or deny. `digest` is that of the turn as the decider saw it. The run goes on once all that its turn
    proposed is decided; nothing is changed where this raises."""
    now = now or timezone.now()
    # First, so that two deciders come one after the other, and nobody ends the run in between.
    current = Run.objects.select_for_update().get(pk=run.pk)
    action = ProposedAction.objects.select_related("decided_by").filter(run=current, pk=action_id).first()
    if action is None:
        raise DecisionConflict("This run has proposed no such action.")
    if conflict := conflict_of(current, action, digest, now):
        raise DecisionConflict(conflict)
    if refusal := why_not_decide(by, current, action):
        raise MayNotDecide(refusal)
    if kind not in (DecisionKind.APPROVE, DecisionKind.DENY):
        raise ValueError(f"nobody decides to {kind}")
    approving = kind is DecisionKind.APPROVE
    if not close_action(
        current, action, kind, by=by, now=now, reason="" if approving else reason, again=again and approving
    ):
        raise DecisionConflict("Somebody else has decided already.")
    if not ProposedAction.objects.filter(run=current, decision="").exists():
        let_go_on(current, now=now)
    wake_on_commit(run.pk)
    logger.info("run %s: %s decided to %s %s", run.pk, by.get_username(), kind, action.tool)
    action.refresh_from_db()
    return action


def conflict_of(run: Run, action: ProposedAction, digest: str, now: datetime) -> str:
    """Why there is nothing to decide; empty where there is."""
    if action.decision:
        who = f" by {action.decided_by.get_username()}" if action.decided_by else ""
        return f"{BECAME[DecisionKind(action.decision)]}{who} already. Nothing was changed."
    if run.status != RunStatus.AWAITING_APPROVAL:
        return "The run doesn't wait for a decision any more. Nothing was changed."
    if action.turn_digest != digest:
        return "What the run proposes has changed since it was shown to you. Look at it again."
    if action.expires_at <= now:
        return "It has expired. Nothing was changed."
    return ""


BECAME = {
    DecisionKind.APPROVE: "This was approved",
    DecisionKind.DENY: "This was denied",
    DecisionKind.EXPIRE: "This has expired",
    DecisionKind.WITHDRAW: "The run was cancelled",
}


def let_go_on(run: Run, *, now: datetime) -> None:
    """Put a run that waited back into the queue."""
    Run.objects.filter(pk=run.pk).update(**queue_columns(since=now, now=now), approval_ms=approval_ms(run, now))
    hand_over_on_commit(run.pk)
