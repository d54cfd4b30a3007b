"""Proposed actions and the decisions about them, each bound by a digest to exactly what was shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from llmcore.messages import JSON, ToolCall, digest_of
from llmcore.tools.base import Action, ActionKind


class DecisionKind(StrEnum):
    """What became of a proposed action."""

    APPROVE = "approve"
    DENY = "deny"
    EXPIRE = "expire"  # nobody decided in time, which ends the run
    WITHDRAW = "withdraw"  # the run was cancelled meanwhile


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What somebody decided about one call.

    An approval holds for what `key` stands for and nothing else (see `ProposedAction.key`), a denial for the call.
    `reason` goes to the model with a denial. `again` approves what has the same key for the rest of the run.
    """

    kind: DecisionKind
    key: str
    reason: str = ""
    again: bool = False

    def to_json(self) -> dict[str, JSON]:
        return {"kind": self.kind.value, "key": self.key, "reason": self.reason, "again": self.again}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**{**data, "kind": DecisionKind(data["kind"])})


@dataclass(frozen=True, kw_only=True, slots=True)
class ProposedAction:
    """A tool call that awaits a person.

    `action` is what it would do, `why` a sentence on why a person is asked, `rule` the name of the rule that says so
    (empty: the tool itself). `position` counts from 1 among the `of` calls of its turn.
    """

    call: ToolCall
    action: Action
    why: str
    rule: str
    position: int
    of: int

    @property
    def key(self) -> str:
        return key_of(self.call, self.action)

    @property
    def repeatable(self) -> bool:
        """Whether the very same can be asked for again. A file that was changed is another file."""
        return self.action.kind is not ActionKind.FILE_CHANGE


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """A turn that can't go on before somebody has decided about its `actions`; `calls` are all its pending calls."""

    round: int
    calls: tuple[ToolCall, ...]
    actions: tuple[ProposedAction, ...]

    @property
    def digest(self) -> str:
        """What a decision names: another turn, another call in it, or another effect of one has another digest."""
        keys = {action.call.id: action.key for action in self.actions}
        return digest_of({"round": self.round, "calls": [_as_asked(call, keys) for call in self.calls]})


def key_of(call: ToolCall, action: Action) -> str:
    """SHA-256 of the tool, its arguments and what they would do now."""
    return digest_of({"tool": call.name, "arguments": call.arguments, "action": action.to_json()})


def granted(decisions: Mapping[str, Decision]) -> set[str]:
    """The keys that were approved for the rest of the run."""
    return {item.key for item in decisions.values() if item.again and item.kind is DecisionKind.APPROVE}


def decision_for(call: ToolCall, key: str, decisions: Mapping[str, Decision]) -> Decision | None:
    """The decision that holds for `call` as it is now: its own, or an approval of the very same before. A denial stands
    whatever the call would do by now."""
    own = decisions.get(call.id)
    if own is not None and (own.key == key or own.kind is not DecisionKind.APPROVE):
        return own
    if key in granted(decisions):
        return Decision(kind=DecisionKind.APPROVE, key=key)
    return None


def explain_denial(decision: Decision) -> str:
    """What the model is told of a denied call."""
    if decision.reason:
        return f"Not run: a person denied this call. Their reason: {decision.reason}"
    return (
        "Not run: a person denied this call and gave no reason. Don't repeat it; go on without it or say what is left."
    )


def _as_asked(call: ToolCall, keys: Mapping[str, str]) -> Sequence[JSON]:
    return [call.id, call.name, call.arguments_raw if call.arguments is None else call.arguments, keys.get(call.id)]
