"""Proposed actions as a decider sees them: their turn, exactly what would be done, why, and who may decide."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db.models import Count, Q

from llmcore.actions.proposals import DecisionKind
from llmcore.mcp_servers import every_tool
from llmcore.messages import Message, ToolCall
from llmcore.runs.outcome import RunStatus
from llmcore.tools.registry import all_tools
from llmcore.trace import StepKind
from playground.access import DECIDE, other_decider_required, visible_runs, why_not_decide, why_not_decide_seen
from playground.models import DecisionRecord, ProposedAction, Run, RunStep
from playground.numbers import plural
from playground.reading.described import Described, describe, summary_of, words
from playground.rows import load_contents

# Of those who can decide so many are named.
NAMED = 5
STATES = {
    "": ("waits", "needs you", "lock", "appr"),
    DecisionKind.APPROVE: ("approved", "approved", "check", "new"),
    DecisionKind.DENY: ("denied", "denied", "x", "err"),
    DecisionKind.EXPIRE: ("expired", "expired", "clock", "chg"),
    DecisionKind.WITHDRAW: ("withdrawn", "cancelled", "slash", ""),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionCard:
    """A proposed action with what its reader may do about it. `refusal` is why they can't decide, `deciders` are those
    who can."""

    action: ProposedAction
    described: Described
    refusal: str
    deciders: str
    earlier: int
    timeout_s: float | None
    expired: bool

    @property
    def decidable(self) -> bool:
        return self.action.waits and not self.refusal and not self.expired

    @property
    def state(self) -> str:
        return "expired" if self.expired and self.action.waits else STATES[self.action.decision][0]

    @property
    def badge(self) -> str:
        return "expired" if self.expired and self.action.waits else STATES[self.action.decision][1]

    @property
    def icon(self) -> str:
        return STATES[self.action.decision][2]

    @property
    def badge_css(self) -> str:
        return STATES[self.action.decision][3]


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnCall:
    """A call of a turn that waits. `card` is set where somebody decides, or has decided, about it; `ran` says that it
    has its result already."""

    name: str
    summary: str
    card: ActionCard | None
    ran: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """The turn that a run waits in: its cards, and all of its calls in their order where there are several. `step`
    is the model's answer that asked for them."""

    cards: tuple[ActionCard, ...] = ()
    calls: tuple[TurnCall, ...] = ()
    round: int = 0
    step: int | None = None


def read_waiting(run: Run, *, user: Any, now: datetime) -> Waiting:
    """What the run waits for, with what is decided already of the same turn."""
    if run.status != RunStatus.AWAITING_APPROVAL:
        return Waiting()
    actions = list(ProposedAction.objects.filter(run=run).select_related("decided_by").order_by("sequence"))
    turns = {action.turn_digest: action.round for action in actions if action.waits}
    if not turns:
        return Waiting()
    cards = cards_of(run, [action for action in actions if action.turn_digest in turns], user=user, now=now)
    return _with_calls(run, cards, round=max(turns.values()))


def _with_calls(run: Run, cards: list[ActionCard], *, round: int) -> Waiting:
    steps = RunStep.objects.filter(run=run, round=round).order_by("sequence")
    answers = [step for step in steps if step.kind == StepKind.RESPONSE]
    step = answers[-1].sequence if answers else None
    # A fork may begin with calls that are left of the run that it goes on from.
    digests = [answers[-1].data["message"]] if answers else (run.plan or {}).get("state", {}).get("messages", [])[-1:]
    content = load_contents(run.pk, digests)
    message = next((Message.from_json(value) for value in content.values() if value), None)
    calls = message.tool_calls if message else ()
    ran = {step.data.get("call_id") for step in steps if step.kind == StepKind.TOOL_RESULT}
    by_call = {card.action.call_id: card for card in cards}
    listed = tuple(
        TurnCall(
            name=words(call.name),
            summary=_summary(call, by_call.get(call.id)),
            card=by_call.get(call.id),
            ran=call.id in ran,
        )
        for call in calls
    )
    return Waiting(cards=tuple(cards), calls=listed if len(listed) > 1 else (), round=round, step=step)


def _summary(call: ToolCall, card: ActionCard | None) -> str:
    if card is not None and not card.described.gone:
        return summary_of(card.described)
    return words(call.arguments_raw or "" if call.arguments is None else json.dumps(call.arguments, ensure_ascii=False))


def cards_of(run: Run, actions: Sequence[ProposedAction], *, user: Any, now: datetime) -> list[ActionCard]:
    """Their cards, in a number of queries that doesn't grow with them."""
    contents = load_contents(run.pk, [action.proposal for action in actions])
    tools, earlier, deciders = every_tool(), earlier_approvals(actions), Deciders(run)
    seen = visible_runs(user).filter(pk=run.pk).exists()
    cards = []
    for action in actions:
        described = describe(contents.get(action.proposal))
        tool = tools.get(action.tool)
        refuse = why_not_decide_seen if seen else why_not_decide
        cards.append(
            ActionCard(
                action=action,
                described=described,
                refusal=refuse(user, run, action) if action.waits else "",
                deciders=deciders.of(action) if action.waits else "",
                earlier=earlier.get(action.key, 0),
                timeout_s=described.timeout_s or (tool.timeout_s if tool else None),
                expired=action.expires_at <= now,
            )
        )
    return cards


def earlier_approvals(actions: Sequence[ProposedAction]) -> dict[str, int]:
    """How often exactly the same was approved before any of `actions` was proposed, in whatever run, by its key."""
    if not actions:
        return {}
    approved = DecisionRecord.objects.filter(
        key__in={action.key for action in actions},
        decision=DecisionKind.APPROVE,
        at__lt=min(action.proposed_at for action in actions),
    )
    return dict(approved.order_by().values_list("key").annotate(count=Count("pk")))


class Deciders:
    """Who can decide about the actions of a run, looked up once for each tool."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._names: dict[str, str] = {}

    def of(self, action: ProposedAction) -> str:
        """By name; empty where nobody can."""
        if action.tool not in self._names:
            self._names[action.tool] = self._look_up(action)
        return self._names[action.tool]

    def _look_up(self, action: ProposedAction) -> str:
        users = get_user_model()._default_manager.filter(is_active=True, is_staff=True)
        own = _holding("playground.view_run") & Q(pk=self._run.user_id)
        users = users.filter(_holding(DECIDE)).filter(_holding("playground.view_all_runs") | own)
        tool = all_tools().get(action.tool)
        if tool is not None and tool.permission:
            users = users.filter(_holding(tool.permission))
        if self._run.user_id is not None and other_decider_required(self._run):
            users = users.exclude(pk=self._run.user_id)
        named = users.distinct().order_by("pk")
        names = [user.get_username() for user in named[: NAMED + 1]]
        more = f" and {plural(named.count() - NAMED, 'other')}" if len(names) > NAMED else ""
        return ", ".join(names[:NAMED]) + more


def _holding(permission: str) -> Q:
    """Users who have a permission, as `has_perm` tells of one of them."""
    app, codename = permission.split(".")
    granted = Permission.objects.filter(content_type__app_label=app, codename=codename)
    return Q(is_superuser=True) | Q(user_permissions__in=granted) | Q(groups__permissions__in=granted)


def waiting_count(cards: Iterable[ActionCard]) -> int:
    return sum(card.action.waits for card in cards)
