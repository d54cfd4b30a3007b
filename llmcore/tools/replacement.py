"""Tools whose calls are answered without running them: by results of an earlier run, or by what a person typed in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self

from llmcore.messages import JSON, Message, digest_of
from llmcore.tools.base import Effect, Tool
from llmcore.tools.results import FailureKind, Origin, ToolResult, clean
from llmcore.trace import RunStep, StepKind

# What a call gave only because of the run that it was made in is no result of its tool.
OF_THE_TOOL = frozenset({None, FailureKind.TOOL_ERROR, FailureKind.EXCEPTION, FailureKind.TIMEOUT})
# From the third identical call on a result has a note for the model in it.
NOTED_FROM = 3
NONE_LEFT = "Not run: this run gives {tool} recorded results, and run {run} has none for another call of it."


class Mode(StrEnum):
    """How a run answers the calls of a tool when it doesn't simply run them."""

    RECORDED = "recorded"
    TYPED = "typed"
    ASK = "ask"


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedResult:
    """A result that a tool gave in an earlier run. `arguments` is the digest of the call's arguments, `step` the
    sequence of the step that made it."""

    step: int
    arguments: str
    text: str
    failure: FailureKind | None = None

    def to_json(self) -> dict[str, JSON]:
        failure = self.failure.value if self.failure else None
        return {"step": self.step, "arguments": self.arguments, "text": self.text, "failure": failure}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        failure = data.get("failure")
        return cls(**{**data, "failure": FailureKind(failure) if failure else None})


@dataclass(frozen=True, kw_only=True, slots=True)
class Replacement:
    """What a run does with the calls of `tool` in place of running them.

    `recorded` gives them the `results` of the run with the number `run`; `typed` gives each of them `text`, as an
    error where `is_error` says so; `ask` runs them, each after a person's approval.
    """

    tool: str
    mode: Mode
    text: str = ""
    is_error: bool = False
    run: int | None = None
    results: tuple[RecordedResult, ...] = ()

    def to_json(self) -> dict[str, JSON]:
        return {
            "tool": self.tool,
            "mode": self.mode.value,
            "text": self.text,
            "is_error": self.is_error,
            "run": self.run,
            "results": [result.to_json() for result in self.results],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        results = tuple(RecordedResult.from_json(result) for result in data.get("results", ()))
        return cls(**{**data, "mode": Mode(data["mode"]), "results": results})


def with_replacements(
    tools: Iterable[Tool], replacements: Iterable[Replacement], *, used: Collection[tuple[int, int]] = ()
) -> dict[str, Tool]:
    """The tools by name, those that are not to run replaced. `used` are the recorded results that were given before,
    as pairs of run and step.

    A model sees no difference: name, description and schema stay. A replaced tool does nothing, so it needs no
    approval.
    """
    by_tool = {item.tool: item for item in replacements if item.mode is not Mode.ASK}
    return {tool.name: replaced(tool, by_tool[tool.name], used) if tool.name in by_tool else tool for tool in tools}


def replaced(tool: Tool, by: Replacement, used: Collection[tuple[int, int]] = ()) -> Tool:
    return replace(
        tool,
        run=_Typed(by) if by.mode is Mode.TYPED else _Recorded(by, used),
        effect=Effect.READ_ONLY,
        requires_approval=False,
        context_parameter=None,
        describe_action=None,
        replaced=by.mode.value,
    )


def recorded_results(
    steps: Iterable[RunStep], contents: Mapping[str, JSON], names: Collection[str]
) -> dict[str, tuple[RecordedResult, ...]]:
    """What the tools of these `names` gave in the run of `steps`, in the order of their calls."""
    begun: dict[str, RunStep] = {}
    found: dict[str, list[RecordedResult]] = {name: [] for name in names}
    for step in steps:
        if step.kind is StepKind.TOOL_CALL:
            begun[step.data["call_id"]] = step
        elif step.kind is StepKind.TOOL_RESULT and (call := begun.pop(step.data["call_id"], None)):
            result = _recorded(call, step, contents)
            if result is not None and call.data["name"] in found:
                found[call.data["name"]].append(result)
    return {name: tuple(sorted(results, key=lambda result: result.step)) for name, results in found.items()}


def used_results(steps: Iterable[RunStep]) -> set[tuple[int, int]]:
    """The recorded results that the run of `steps` was given already."""
    origins = [step.data.get("origin") for step in steps if step.kind is StepKind.TOOL_RESULT]
    return {(origin["run"], origin["step"]) for origin in origins if origin and origin["step"] is not None}


def _recorded(call: RunStep, result: RunStep, contents: Mapping[str, JSON]) -> RecordedResult | None:
    failure = FailureKind(result.data["error_kind"]) if result.data["error_kind"] else None
    message = contents.get(result.data["message"])
    if failure not in OF_THE_TOOL or message is None or (call.data.get("repeat") or 1) >= NOTED_FROM:
        return None
    full = contents.get(result.data["full"]) if result.data.get("full") else None
    text = full if isinstance(full, str) else Message.from_json(message).text
    return RecordedResult(step=call.sequence, arguments=call.data["arguments"], text=text, failure=failure)


class _Typed:
    """Gives each call what a person typed in."""

    def __init__(self, by: Replacement) -> None:
        self._by = by

    async def __call__(self, /, **arguments: JSON) -> ToolResult:
        failure = FailureKind.TOOL_ERROR if self._by.is_error else None
        return ToolResult(text=clean(self._by.text), failure=failure, origin=Origin())


class _Recorded:
    """Gives each call the result that a call with the same arguments had, one after the other; where there is none,
    the next result of the tool, and says that the arguments differ."""

    def __init__(self, by: Replacement, used: Collection[tuple[int, int]]) -> None:
        self._by = by
        self._left = [result for result in by.results if (by.run, result.step) not in used]

    async def __call__(self, /, **arguments: JSON) -> ToolResult:
        digest = digest_of(arguments)
        same = [result for result in self._left if result.arguments == digest]
        # A model that asks the same again gets the same again.
        again = [result for result in self._by.results if result.arguments == digest]
        found = next(iter(same or again[-1:] or self._left), None)
        if found is None:
            text = NONE_LEFT.format(tool=self._by.tool, run=self._by.run)
            return ToolResult(text=text, failure=FailureKind.NOT_RECORDED, origin=Origin(run=self._by.run))
        if found in self._left:
            self._left.remove(found)
        origin = Origin(run=self._by.run, step=found.step, differs=found.arguments != digest)
        return ToolResult(text=clean(found.text), failure=found.failure, origin=origin)
