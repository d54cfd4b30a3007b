"""The list of proposed actions: those that wait, the most urgent first, and what was decided last."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from playground.access import decidable_actions, visible_runs, why_not_decide_seen
from playground.models import ProposedAction, RunContent
from playground.reading.approvals import STATES
from playground.reading.described import describe, summary_of

MOST_WAITING = 200
MOST_DECIDED = 25
LARGE = ("run__prompt", "run__request", "run__answer", "run__findings", "run__error", "run__note")


@dataclass(frozen=True, kw_only=True, slots=True)
class InboxRow:
    """A proposed action on one line."""

    action: ProposedAction
    summary: str
    refusal: str
    expired: bool

    @property
    def badge(self) -> str:
        return STATES[self.action.decision][1]

    @property
    def badge_css(self) -> str:
        return STATES[self.action.decision][3]


def read_inbox(*, user: Any, now: datetime) -> dict[str, Any]:
    related = ("run__user", "run__configuration", "decided_by")
    seen = ProposedAction.objects.filter(run__in=visible_runs(user)).select_related(*related).defer(*LARGE)
    waiting = list(seen.filter(decision="").order_by("expires_at", "pk")[:MOST_WAITING])
    decided = list(seen.exclude(decision="").order_by("-decided_at", "-pk")[:MOST_DECIDED])
    contents = _contents([*waiting, *decided])
    return {
        "waiting": [_row(action, contents, user, now) for action in waiting],
        "decided": [_row(action, contents, user, now) for action in decided],
        "count": decidable_actions(user).count(),
    }


def _row(action: ProposedAction, contents: dict[tuple[int, str], Any], user: Any, now: datetime) -> InboxRow:
    described = describe(contents.get((action.run_id, action.proposal)))
    return InboxRow(
        action=action,
        summary="" if described.gone else summary_of(described),
        refusal=why_not_decide_seen(user, action.run, action) if action.waits else "",
        expired=action.waits and action.expires_at <= now,
    )


def _contents(actions: Iterable[ProposedAction]) -> dict[tuple[int, str], Any]:
    actions = list(actions)
    rows = RunContent.objects.filter(
        run__in={action.run_id for action in actions}, digest__in={action.proposal for action in actions}
    )
    return {(run_id, digest): value for run_id, digest, value in rows.values_list("run_id", "digest", "value")}
