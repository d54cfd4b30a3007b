"""The state of a run as one value that the loop can start from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from llmcore.actions.proposals import Decision, DecisionKind
from llmcore.configuration import Limits, Parameters
from llmcore.context.compaction import Compaction
from llmcore.errors import UNSENT
from llmcore.messages import JSON, FinishReason, Message, ToolCall, digest_of
from llmcore.runs.transcript import interrupted, split_results
from llmcore.structured.expected import Expected
from llmcore.tools.base import Effect
from llmcore.tools.results import FailureKind
from llmcore.trace import RunStep, StepKind


@dataclass(frozen=True, kw_only=True, slots=True)
class RunState:
    """Everything that the loop needs to go on, whether it has not begun or was suspended, interrupted or forked.

    `messages` is the transcript so far; calls of its last assistant message without a result are pending.
    `offered` is the gate: the names of the tools this run may call, computed once. `call_counts` maps each call made
    (tool and canonical arguments) to how often it was made. `rounds_used` counts provider calls. `finish_reason` is
    why the model stopped in the last of them; `None` means that the transcript awaits an answer. `decisions` are what
    people decided about proposed calls, by call id. `route` names the model that the run fell back to, empty where it
    didn't; the first `foreign` messages are from before that: another model wrote them. `expected` says what the answer
    has to be, where it has to be JSON; `repairs_used` counts how often the model was told that it isn't. `silent` says
    that the last answer had nothing in it, so that it is not among the messages. `folded_calls` are the ids of calls
    that are no longer among them either, since a summary took their place: no later call may have one of them.
    """

    messages: tuple[Message, ...]
    parameters: Parameters = field(default_factory=Parameters)
    limits: Limits = field(default_factory=Limits)
    offered: tuple[str, ...] = ()
    rounds_used: int = 0
    call_counts: Mapping[str, int] = field(default_factory=dict)
    finish_reason: FinishReason | None = None
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    route: str = ""
    foreign: int = 0
    expected: Expected | None = None
    repairs_used: int = 0
    silent: bool = False
    folded_calls: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "messages": [message.json for message in self.messages],
            "parameters": self.parameters.to_json(),
            "limits": self.limits.to_json(),
            "offered": list(self.offered),
            "rounds_used": self.rounds_used,
            "call_counts": dict(self.call_counts),
            "finish_reason": self.finish_reason.value if self.finish_reason else None,
            "decisions": {call_id: decision.to_json() for call_id, decision in self.decisions.items()},
            "route": self.route,
            "foreign": self.foreign,
            "expected": self.expected and self.expected.to_json(),
            "repairs_used": self.repairs_used,
            "silent": self.silent,
            "folded_calls": list(self.folded_calls),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        reason = data.get("finish_reason")
        return cls(
            messages=tuple(Message.from_json(message) for message in data["messages"]),
            parameters=Parameters.from_json(data["parameters"]),
            limits=Limits.from_json(data["limits"]),
            offered=tuple(data["offered"]),
            rounds_used=data["rounds_used"],
            call_counts=dict(data["call_counts"]),
            finish_reason=FinishReason(reason) if reason else None,
            decisions={k: Decision.from_json(value) for k, value in data.get("decisions", {}).items()},
            route=data.get("route", ""),
            foreign=data.get("foreign", 0),
            expected=Expected.from_json(data["expected"]) if data.get("expected") else None,
            repairs_used=data.get("repairs_used", 0),
            silent=data.get("silent", False),
            folded_calls=tuple(data.get("folded_calls", ())),
        )


class Progress:
    """A run's state while it changes."""

    def __init__(self, state: RunState) -> None:
        self._initial = state
        self.messages = list(state.messages)
        self.rounds_used = state.rounds_used
        self.finish_reason = state.finish_reason
        self.call_counts = dict(state.call_counts)
        self.decisions = dict(state.decisions)
        self.route = state.route
        self.foreign = state.foreign
        self.expected = state.expected
        self.repairs_used = state.repairs_used
        self.silent = state.silent
        self.folded_calls = list(state.folded_calls)

    def state(self) -> RunState:
        return replace(
            self._initial,
            messages=tuple(self.messages),
            rounds_used=self.rounds_used,
            finish_reason=self.finish_reason,
            call_counts=self.call_counts,
            decisions=self.decisions,
            route=self.route,
            foreign=self.foreign,
            repairs_used=self.repairs_used,
            silent=self.silent,
            folded_calls=tuple(self.folded_calls),
        )

    def fall_back_to(self, route: str) -> None:
        """From now on the model `route` answers; all that was said so far it did not write."""
        self.route, self.foreign = route, len(self.messages)

    def compact(self, compaction: Compaction, instead: Message) -> None:
        """Let one message stand for old ones."""
        self.foreign = compaction.place_of(self.foreign)
        self.folded_calls += [call.id for message in compaction.old(self.messages) for call in message.tool_calls]
        self.messages[:] = compaction.apply(self.messages, instead)

    def add_answer(self, message: Message, finish_reason: FinishReason | None) -> None:
        """Take what the model said. An answer without any content has no place in a transcript."""
        self.silent = not (message.parts or message.tool_calls)
        if not self.silent:
            self.messages.append(message)
        if message.tool_calls and finish_reason in (FinishReason.STOP, None):
            finish_reason = FinishReason.TOOL_CALLS
        self.finish_reason = finish_reason or FinishReason.STOP

    def ask_again(self, repair: Message) -> None:
        """Tell the model what is wrong with its answer."""
        self.messages.append(repair)
        self.repairs_used += 1
        self.finish_reason = None

    @property
    def answer(self) -> str:
        """The text that the model said last."""
        start = self._turn_start()
        return "" if start is None or self.silent else self.messages[start].text

    def turn_calls(self) -> tuple[ToolCall, ...]:
        """All calls of the last turn."""
        start = self._turn_start()
        return () if start is None else self.messages[start].tool_calls

    def pending_calls(self) -> list[ToolCall]:
        """Those of them that have no result yet."""
        start = self._turn_start()
        if start is None:
            return []
        calls = self.messages[start].tool_calls
        found, _ = split_results(calls, self.messages[start + 1 :])
        return [call for index, call in enumerate(calls) if index not in found]

    def order_results(self) -> None:
        """Put the last turn's results in the order of its calls."""
        start = self._turn_start()
        if start is not None:
            found, stray = split_results(self.messages[start].tool_calls, self.messages[start + 1 :])
            self.messages[start + 1 :] = [found[index] for index in sorted(found)] + stray

    def last_results(self) -> list[Message]:
        start = self._turn_start()
        return [] if start is None else self.messages[start + 1 :]

    def _turn_start(self) -> int | None:
        """The index of the assistant message whose results are the end of the transcript, or are still to come."""
        for index in range(len(self.messages) - 1, -1, -1):
            match self.messages[index].role:
                case "assistant":
                    return index
                case "tool":
                    continue
            return None
        return None


def identity_of(call: ToolCall) -> str:
    """What makes two calls identical: the tool and the canonical arguments."""
    return _identity(call.name, digest_of(call.arguments_raw if call.arguments is None else call.arguments))


def _identity(name: str, arguments_digest: str) -> str:
    return f"{name}:{arguments_digest}"


def replay(initial: RunState, steps: Iterable[RunStep], contents: Mapping[str, JSON]) -> RunState:
    """The state after the recorded `steps` of a run that began at `initial`.

    Calls with a recorded result keep it and never run again. A call that was started and has none, or that a
    cancellation broke off, is pending again, unless running it twice could do harm: then its result says so. A model's
    answer that was broken off counts for nothing.
    """
    progress = Progress(initial)
    started: dict[str, Mapping[str, JSON]] = {}
    for step in steps:
        data = step.data
        match step.kind:
            case StepKind.RESPONSE if data.get("falls_back_to"):
                # The same round is asked again of the next model.
                progress.order_results()
                progress.fall_back_to(data["falls_back_to"])
            case StepKind.COMPACTION:
                # Over an interruption the results of a turn may have been recorded out of order.
                progress.order_results()
                progress.compact(Compaction.from_json(data), Message.from_json(contents[data["message"]]))
            case StepKind.RESPONSE if not data["cancelled"] and not _unsent(data["error"]):
                progress.rounds_used = step.round
                # Over an interruption the results of a turn may have been recorded out of order.
                progress.order_results()
                if not data["error"]:
                    reason = FinishReason(data["finish_reason"]) if data["finish_reason"] else None
                    progress.add_answer(Message.from_json(contents[data["message"]]), reason)
            case StepKind.VALIDATION if data.get("repair"):
                progress.ask_again(Message.from_json(contents[data["repair"]]))
            case StepKind.ACTION if data["event"] == "decided":
                progress.decisions[data["call_id"]] = Decision(
                    kind=DecisionKind(data["decision"]),
                    key=data["key"],
                    reason=contents[data["reason"]] if data["reason"] else "",
                    again=data["again"],
                )
            case StepKind.TOOL_CALL:
                started[data["call_id"]] = data
            case StepKind.TOOL_RESULT:
                begun = started.pop(data["call_id"], None)
                if not _may_run_again(begun, data):
                    _close(progress, begun, Message.from_json(contents[data["message"]]))
    for call in progress.pending_calls():
        begun = started.get(call.id)
        if begun and begun["effect"] == Effect.NON_IDEMPOTENT_WRITE and not begun["problem"]:
            _close(progress, begun, interrupted(call))
    progress.order_results()
    return progress.state()


def _unsent(error: Mapping[str, JSON] | None) -> bool:
    """Whether the round never went out, so that it is made again."""
    return error is not None and error.get("kind") in UNSENT


def _may_run_again(begun: Mapping[str, JSON] | None, result: Mapping[str, JSON]) -> bool:
    """Whether a result only says that a cancellation kept the call from running, or broke it off harmlessly."""
    if result["error_kind"] != FailureKind.CANCELLED:
        return False
    return not result["effect_unknown"] or (begun is not None and begun["effect"] != Effect.NON_IDEMPOTENT_WRITE)


def _close(progress: Progress, begun: Mapping[str, JSON] | None, result: Message) -> None:
    progress.messages.append(result)
    if begun is not None:
        identity = _identity(begun["name"], begun["arguments"])
        progress.call_counts[identity] = progress.call_counts.get(identity, 0) + 1
