"""Decides about an action that another engine proposes: a compare-and-set bound to the digest of what was shown."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from llmcore import store
from llmcore.actions.proposals import DecisionKind
from playground.access import visible_engine_actions, why_not_decide_engine
from playground.approvals import audit
from playground.models import EngineAction
from playground.privacy import PrivacyLevel
from playground.services.decide_action import BECAME, DecisionConflict, MayNotDecide

logger = logging.getLogger(__name__)


@transaction.atomic
def decide_engine_action(
    *, action_id: int, digest: str, kind: DecisionKind, by: User, now: datetime, reason: str = ""
) -> EngineAction:
    """Approve or deny; nothing is changed where this raises. `digest` is that of the action as the decider saw it."""
    if kind not in (DecisionKind.APPROVE, DecisionKind.DENY):
        raise ValueError(f"nobody decides to {kind}")
    rows = visible_engine_actions(by).select_for_update(of=("self",)).select_related("configuration", "decided_by")
    action = rows.filter(pk=action_id).first()
    if action is None:
        raise DecisionConflict("There is no such action.")
    if conflict := conflict_of(action, digest, now):
        raise DecisionConflict(conflict)
    if refusal := why_not_decide_engine(by, action):
        raise MayNotDecide(refusal)
    denial = reason if kind is DecisionKind.DENY else ""
    if not close_engine_action(action, kind, by=by, now=now, reason=denial):
        raise DecisionConflict("Somebody else has decided already.")
    logger.info("session %s: %s decided to %s %s", action.session, by.get_username(), kind, action.tool)
    action.refresh_from_db()
    return action


def conflict_of(action: EngineAction, digest: str, now: datetime) -> str:
    """Why there is nothing to decide; empty where there is."""
    if action.decision:
        who = f" by {action.decided_by.get_username()}" if action.decided_by else ""
        return f"{BECAME[DecisionKind(action.decision)]}{who} already. Nothing was changed."
    if action.digest != digest:
        return "This is not what was shown to you. Look at it again."
    if action.expires_at <= now:
        return "It has expired. Nothing was changed."
    return ""


@transaction.atomic
def close_engine_action(
    action: EngineAction, kind: DecisionKind, *, by: User | None, now: datetime, reason: str = ""
) -> bool:
    """Write down what became of a waiting action, with the audit, and leave of it what its privacy level allows. False,
    and nothing is written, where something became of it before."""
    waiting = EngineAction.objects.filter(pk=action.pk, decision="")
    if not waiting.update(decision=kind, decided_at=now, decided_by=by, **kept(action, reason)):
        return False
    audit(
        kind,
        by=by,
        at=now,
        session=action.session,
        call_id=action.call_id,
        tool=action.tool,
        rule=action.rule,
        turn_digest=action.digest,
        key=action.key,
    )
    return True


def kept(action: EngineAction, reason: str) -> dict[str, Any]:
    """What stays of the contents of an action that is decided."""
    redactor = store.site_redactor()
    if action.privacy_level == PrivacyLevel.METADATA:
        return {"content": None, "reason": ""}
    if action.privacy_level == PrivacyLevel.REDACTED:
        return {"content": redactor.deep(action.content, patterns=True), "reason": redactor.patterns(reason)}
    return {"content": action.content, "reason": redactor.stored(reason)}
