"""An action of another engine: as a decider sees it, and as the engine is told of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from llmcore.actions.proposals import DecisionKind
from playground.access import why_not_decide_engine
from playground.models import EngineAction
from playground.reading.approvals import STATES
from playground.reading.described import Described, describe


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineCard:
    """`refusal` is why the reader can't decide; `expired` where nobody can any more."""

    action: EngineAction
    described: Described
    refusal: str
    expired: bool

    @property
    def decidable(self) -> bool:
        return self.action.waits and not self.refusal and not self.expired

    @property
    def state(self) -> str:
        return "expired" if self.expired else STATES[self.action.decision][0]

    @property
    def badge(self) -> str:
        return "expired" if self.expired else STATES[self.action.decision][1]

    @property
    def icon(self) -> str:
        return STATES[self.action.decision][2]

    @property
    def badge_css(self) -> str:
        return STATES[self.action.decision][3]


def read_engine_action(action: EngineAction, *, user: Any, now: datetime) -> EngineCard:
    return EngineCard(
        action=action,
        described=describe(action.content),
        refusal=why_not_decide_engine(user, action) if action.waits else "",
        expired=action.waits and action.expires_at <= now,
    )


def state_of(action: EngineAction, *, now: datetime) -> dict[str, Any]:
    """What the engine is told of its proposal: it runs nothing before `state` is `approved`."""
    expired = action.waits and action.expires_at <= now
    return {
        "id": action.pk,
        "call": action.call_id,
        "state": STATES[DecisionKind.EXPIRE if expired else action.decision][0],
        "reason": action.reason,
        "decided_by": action.decided_by.get_username() if action.decided_by else None,
        "decided_at": action.decided_at and action.decided_at.isoformat(),
        "expires_at": action.expires_at.isoformat(),
        "digest": action.digest,
    }
