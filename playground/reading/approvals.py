"""Proposed actions as a decider sees them: exactly what would be done, why a person is asked, and who may decide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db.models import Q

from llmcore.actions.proposals import DecisionKind
from llmcore.runs.outcome import RunStatus
from llmcore.tools.base import Action, ActionKind
from llmcore.tools.registry import all_tools
from playground.access import DECIDE, other_decider_required, why_not_decide
from playground.models import DecisionRecord, ProposedAction, Run
from playground.numbers import plural
from playground.reading.boxes import pretty
from playground.reading.visible import visible
from playground.rows import load_contents

# Of those who can decide so many are named.
NAMED = 5
MAX_DIFF_LINES = 2_000
WANTS = {
    ActionKind.COMMAND: "wants to run a command",
    ActionKind.FILE_CHANGE: "wants to change a file",
    ActionKind.CALL: "wants to be called",
}
STATES = {
    "": ("waits", "needs you", "lock", "appr"),
    DecisionKind.APPROVE: ("approved", "approved", "check", "new"),
    DecisionKind.DENY: ("denied", "denied", "x", "err"),
    DecisionKind.EXPIRE: ("expired", "expired", "clock", "chg"),
    DecisionKind.WITHDRAW: ("withdrawn", "cancelled", "slash", ""),
}


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a unified difference."""

    sign: str
    text: str

    @property
    def css(self) -> str:
        return {"+": "add", "-": "del"}.get(self.sign, "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Described:
    """What a call would do, in the words and lines that are shown; `gone` where that is no longer stored."""

    title: str = ""
    wants: str = ""
    command: str = ""
    shell: bool = False
    argv: tuple[str, ...] = ()
    path: str = ""
    directory: str = ""
    diff: tuple[DiffLine, ...] = ()
    diff_cut: bool = False
    arguments: str = ""
    why: str = ""
    repeatable: bool = False
    gone: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionCard:
    """A proposed action with what its reader may do about it. `refusal` is why they can't decide."""

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


def read_cards(run: Run, *, user: Any, now: datetime) -> list[ActionCard]:
    """The actions that the run waits for, with those of the same turn that are decided already."""
    if run.status != RunStatus.AWAITING_APPROVAL:
        return []
    actions = list(ProposedAction.objects.filter(run=run).select_related("decided_by").order_by("sequence"))
    turns = {action.turn_digest for action in actions if action.waits}
    return cards_of(run, [action for action in actions if action.turn_digest in turns], user=user, now=now)


def cards_of(run: Run, actions: Sequence[ProposedAction], *, user: Any, now: datetime) -> list[ActionCard]:
    contents = load_contents(run.pk, [action.proposal for action in actions])
    tools = all_tools()
    cards = []
    for action in actions:
        refusal = why_not_decide(user, run, action) if action.waits else ""
        tool = tools.get(action.tool)
        cards.append(
            ActionCard(
                action=action,
                described=describe(action.tool, contents.get(action.proposal)),
                refusal=refusal,
                deciders=deciders_of(run, action) if refusal else "",
                earlier=earlier_approvals(action),
                timeout_s=tool.timeout_s if tool else None,
                expired=action.expires_at <= now,
            )
        )
    return cards


def describe(tool: str, content: Mapping[str, Any] | None) -> Described:
    """`content` is what the step that proposed the action keeps of it."""
    if not content:
        return Described(gone=True, wants=WANTS[ActionKind.CALL])
    action = Action.from_json(content["action"])
    lines = [DiffLine(line[:1], visible(line[1:])) for line in action.diff.split("\n")] if action.diff else []
    return Described(
        title=visible(action.title),
        wants=WANTS[action.kind],
        command=visible(action.command),
        shell=action.shell,
        argv=tuple(visible(word) for word in action.argv),
        path=visible(action.path),
        directory=visible(action.directory),
        diff=tuple(lines[:MAX_DIFF_LINES]),
        diff_cut=len(lines) > MAX_DIFF_LINES,
        arguments=visible(pretty(content.get("arguments"))),
        why=visible(content.get("why") or ""),
        repeatable=bool(content.get("repeatable")),
    )


def earlier_approvals(action: ProposedAction) -> int:
    """How often exactly this was approved before, in whatever run."""
    return DecisionRecord.objects.filter(
        key=action.key, decision=DecisionKind.APPROVE, at__lt=action.proposed_at
    ).count()


def deciders_of(run: Run, action: ProposedAction) -> str:
    """Who can decide, by name; empty where nobody can."""
    app, codename = DECIDE.split(".")
    granted = Permission.objects.filter(content_type__app_label=app, codename=codename)
    staff = get_user_model()._default_manager.filter(is_active=True, is_staff=True)
    holders = staff.filter(
        Q(is_superuser=True) | Q(user_permissions__in=granted) | Q(groups__permissions__in=granted)
    ).distinct()
    if run.user_id is not None and other_decider_required(run):
        holders = holders.exclude(pk=run.user_id)
    names = [
        user.get_username() for user in holders.order_by("pk")[: 4 * NAMED] if not why_not_decide(user, run, action)
    ]
    more = f" and {plural(len(names) - NAMED, 'other')}" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def summary_of(described: Described) -> str:
    """What it would do, on one line."""
    text = described.command or described.title or described.arguments
    return " ".join(text.split())[:200]


def waiting_count(cards: Iterable[ActionCard]) -> int:
    return sum(card.action.waits for card in cards)
