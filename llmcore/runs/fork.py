"""Where a run begins that goes on from the middle of another one: that one's state, with what a person changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from llmcore.messages import JSON, FinishReason
from llmcore.runs.state import RunState
from llmcore.trace import RunStep, StepKind

CALL_KINDS = frozenset({StepKind.TOOL_CALL, StepKind.TOOL_RESULT, StepKind.ACTION})


@dataclass(frozen=True, kw_only=True, slots=True)
class Fork:
    """The beginning of a run in the middle of the run number `run`.

    `step` is the step that was chosen there (0: its start), `end` the first step that is not part of it, `state` what
    that run had come to, with the edits made in it; its parameters, limits and gate are those of that run. `edited`
    are the indexes of the messages that a person changed. `configuration`, `provider` and `model` name what it ran
    with. `skills` are the slugs of those in its prompt, `segments` says where its prompt's texts came from.
    """

    run: int
    step: int
    end: int
    state: RunState
    edited: tuple[int, ...] = ()
    configuration: str = ""
    provider: str = ""
    model: str = ""
    skills: tuple[str, ...] = ()
    segments: tuple[Mapping[str, JSON], ...] = field(default=())

    @property
    def round(self) -> int:
        """The round that comes first."""
        return self.state.rounds_used + 1

    def to_json(self) -> dict[str, JSON]:
        return {
            "run": self.run,
            "step": self.step,
            "end": self.end,
            "state": self.state.to_json(),
            "edited": list(self.edited),
            "configuration": self.configuration,
            "provider": self.provider,
            "model": self.model,
            "skills": list(self.skills),
            "segments": [dict(segment) for segment in self.segments],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        tuples = {name: tuple(data.get(name, ())) for name in ("edited", "skills", "segments")}
        return cls(**{**data, **tuples, "state": RunState.from_json(data["state"])})


def end_of_fork(steps: Sequence[RunStep], at: int) -> int:
    """The first step that a fork at the step `at` leaves out: of a model call that call itself, of a tool's call or
    result the next round, so that what was executed is not executed again, of a summary what was there before it."""
    requests = [step.sequence for step in steps if step.kind is StepKind.REQUEST]
    chosen = next((step for step in steps if step.sequence == at), None)
    if chosen is None:
        # The start of the run, or a dry run's only step.
        return requests[0] if requests else 1
    if chosen.kind is StepKind.COMPACTION or (chosen.kind is StepKind.CONTEXT and at - 1 not in requests):
        # A window without a request is of one that was not made.
        return at
    if chosen.kind in CALL_KINDS:
        return next((sequence for sequence in requests if sequence > at), steps[-1].sequence + 1)
    return max((sequence for sequence in requests if sequence <= at), default=requests[0] if requests else 1)


def awaiting(state: RunState) -> RunState:
    """The state as one that awaits an answer, or the results of calls. What people decided holds for the run in which
    they were asked, and for no other."""
    last = state.messages[-1] if state.messages else None
    pending = last is not None and last.role == "assistant" and bool(last.tool_calls)
    return replace(state, finish_reason=FinishReason.TOOL_CALLS if pending else None, decisions={})


def without_contents(fork: Mapping[str, JSON]) -> dict[str, JSON]:
    """A fork as JSON that says what was changed and nothing of what was said."""
    return {**fork, "state": {**fork["state"], "messages": [], "call_counts": {}, "decisions": {}}}


def differences(fork: Fork, *, names: Mapping[str, str], state: RunState | None) -> list[str]:
    """How a run differs from the one it was forked from, in words. `names` are its configuration, provider and model,
    `state` its own first state, of which only parameters, limits and gate are read; `None` while there is none."""
    found = []
    if fork.edited:
        found.append(f"{len(fork.edited)} {'message' if len(fork.edited) == 1 else 'messages'} edited")
    before = {"configuration": fork.configuration, "provider": fork.provider, "model": fork.model}
    found += [
        f"{name} {before[name]} → {now}" for name, now in names.items() if before.get(name) and before[name] != now
    ]
    if state is not None:
        found += _parameter_differences(fork.state, state)
        found += _tool_differences(fork.state.offered, state.offered)
    return found


def _parameter_differences(before: RunState, after: RunState) -> list[str]:
    old = {**before.parameters.to_json(), "max_rounds": before.limits.max_rounds}
    new = {**after.parameters.to_json(), "max_rounds": after.limits.max_rounds}
    return [
        f"{name.replace('_', ' ')} {_value(old.get(name))} → {_value(value)}"
        for name, value in new.items()
        if value != old.get(name)
    ]


def _tool_differences(before: Iterable[str], after: Iterable[str]) -> list[str]:
    gone, new = sorted(set(before) - set(after)), sorted(set(after) - set(before))
    return [*([f"without {', '.join(gone)}"] if gone else []), *([f"with {', '.join(new)}"] if new else [])]


def _value(value: JSON) -> str:
    match value:
        case None:
            return "not set"
        case bool():
            return "on" if value else "off"
        case list():
            return ", ".join(map(str, value)) or "none"
    return str(value)
