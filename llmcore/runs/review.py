"""Looks at the calls of a turn before any of them runs: which may, which may not, and about which a person is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from llmcore.actions.policy import Judged, Policy, Ruling
from llmcore.actions.proposals import (
    Decision,
    DecisionKind,
    Proposal,
    ProposedAction,
    decision_for,
    explain_denial,
    key_of,
)
from llmcore.messages import ToolCall
from llmcore.runs.objections import Objections
from llmcore.tools.base import Action
from llmcore.tools.execute import ToolRunner
from llmcore.tools.results import FailureKind, ToolResult


@dataclass(frozen=True, kw_only=True, slots=True)
class Reviewed:
    """What was found out about one call: `cleared` says that it may run, else `refusal` is its result.

    `approved` is the action that it is held to when it runs, `asks` what a person has to decide about first.
    """

    call: ToolCall | None = None
    judged: Judged | None = None
    cleared: bool = False
    refusal: ToolResult | None = None
    approved: Action | None = None
    asks: ProposedAction | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Review:
    """What was found out about the calls of a turn, by their ids."""

    calls: Mapping[str, Reviewed] = field(default_factory=dict)

    def of(self, call: ToolCall) -> Reviewed:
        found = self.calls.get(call.id, NOTHING)
        # A clearance is for one call, not for whatever has its id.
        return found if found.call == call else NOTHING

    def proposal(self, calls: Sequence[ToolCall], *, round: int) -> Proposal | None:
        """What has to be decided before any of `calls` may run."""
        asked = tuple(item.asks for item in self.calls.values() if item.asks is not None)
        return Proposal(round=round, calls=tuple(calls), actions=asked) if asked else None


NOTHING = Reviewed()


@dataclass(frozen=True, kw_only=True, slots=True)
class Reviewer:
    """Reviews turns by the site's policy. Without one nobody can be asked: what would need it is refused."""

    policy: Policy | None
    objections: Objections
    runner: ToolRunner

    async def review(
        self,
        calls: Sequence[ToolCall],
        *,
        turn: Sequence[ToolCall],
        decisions: Mapping[str, Decision],
    ) -> Review:
        """`calls` are those of the `turn` that have no result yet. Runs nothing, but asks each tool what the call would
        do."""
        found: dict[str, Reviewed] = {}
        for call in calls:
            if self.objections.to(call) is None:
                found[call.id] = await self._one(call, _position(call, turn), len(turn), decisions)
        return Review(calls=found)

    async def _one(self, call: ToolCall, position: int, of: int, decisions: Mapping[str, Decision]) -> Reviewed:
        tool, arguments = self.objections.offered[call.name], call.arguments or {}
        if tool.replaced:
            # Nothing is going to happen that anybody could object to.
            return Reviewed(call=call, cleared=True)
        described = await self.runner.describe(tool, arguments)
        if isinstance(described, ToolResult):
            return Reviewed(call=call, refusal=described)
        action, asked = described.action, described.needs_approval
        policy = self.policy or Policy()
        judged = policy.judge(tool=tool.name, arguments=arguments, action=action, needs_approval=asked)
        if judged.ruling is Ruling.DENY:
            return refused(call, judged, FailureKind.DENIED, f"Not run: this site forbids this call. {judged.why}")
        decision = decision_for(call, key_of(call, action), decisions)
        if decision is not None and decision.kind is not DecisionKind.APPROVE:
            # No rule that came after it speaks for a call that a person has denied.
            ruled = judged if judged.ruling is Ruling.REQUIRE else None
            return refused(call, ruled, FailureKind.DENIED, explain_denial(decision))
        if judged.ruling is Ruling.AUTO_APPROVE:
            held_to = action if asked is not None else None
            return Reviewed(call=call, judged=judged, cleared=True, approved=held_to)
        if decision is not None:
            return Reviewed(call=call, judged=judged, cleared=True, approved=action)
        if self.policy is None:
            return refused(
                call, judged, FailureKind.NEEDS_APPROVAL, f"Not run: {judged.why} This run can't ask a person."
            )
        rule = judged.rule.name if judged.rule else ""
        asks = ProposedAction(call=call, action=action, why=judged.why, rule=rule, position=position, of=of)
        return Reviewed(call=call, judged=judged, asks=asks)


def refused(call: ToolCall, judged: Judged | None, failure: FailureKind, text: str) -> Reviewed:
    return Reviewed(call=call, judged=judged, refusal=ToolResult.failed(failure, text))


def _position(call: ToolCall, turn: Iterable[ToolCall]) -> int:
    return next((number for number, other in enumerate(turn, start=1) if other.id == call.id), 1)
