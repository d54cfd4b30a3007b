"""A run as the findings read it: its steps paired into model calls and tool runs, once, in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from llmcore.configuration import Limits
from llmcore.context.estimator import Estimator
from llmcore.findings.finding import Finding, Severity
from llmcore.messages import JSON
from llmcore.prompts.provenance import Dropped
from llmcore.runs.outcome import EndReason
from llmcore.trace import RunStep, StepKind


@dataclass(kw_only=True, slots=True)
class ModelRound:
    """One model call: its request step, its response step if it came to one, and the retries between them. `context`
    says where the window went; runs from before that was recorded have none."""

    request: RunStep
    context: RunStep | None = None
    response: RunStep | None = None
    retries: list[RunStep] = field(default_factory=list)

    @property
    def number(self) -> int:
        return self.request.round

    @property
    def asked(self) -> Mapping[str, Any]:
        return self.request.data

    @property
    def got(self) -> Mapping[str, Any]:
        """The response's data, empty where there is none."""
        return self.response.data if self.response else {}

    @property
    def usage(self) -> Mapping[str, Any]:
        return self.got.get("usage") or {}

    @property
    def input_tokens(self) -> int:
        """The tokens of the prompt: as the provider counted them, else as they were estimated."""
        counted = self.usage.get("input_tokens")
        if counted is None and self.context is not None:
            counted = self.context.data["used"]
        return int(counted if counted is not None else self.asked.get("input_tokens_estimate") or 0)

    @property
    def error(self) -> Mapping[str, Any]:
        return self.got.get("error") or {}

    @property
    def succeeded(self) -> bool:
        return self.response is not None and not self.error and not self.got.get("cancelled")

    def finding(
        self, id: str, severity: Severity, title: str, detail: str = "", impact: str = "", tab: str = "response"
    ) -> Finding:
        """A finding that this call shows."""
        return Finding(
            id=id,
            severity=severity,
            title=title,
            detail=detail,
            impact=impact,
            sequence=self.request.sequence,
            tab=tab,
            where=f"Round {self.number}, model call",
        )


@dataclass(kw_only=True, slots=True)
class ToolRun:
    """One tool call: its call step and its result step, if it came to one."""

    call: RunStep
    result: RunStep | None = None

    @property
    def name(self) -> str:
        return str(self.call.data.get("name", ""))

    @property
    def round(self) -> int:
        return self.call.round

    @property
    def asked(self) -> Mapping[str, Any]:
        return self.call.data

    @property
    def got(self) -> Mapping[str, Any]:
        """The result's data, empty where there is none."""
        return self.result.data if self.result else {}

    @property
    def error_kind(self) -> str | None:
        return self.got.get("error_kind")

    @property
    def failed(self) -> bool:
        return bool(self.got.get("is_error"))

    @property
    def succeeded(self) -> bool:
        return self.result is not None and not self.failed

    @property
    def said(self) -> str:
        return str(self.got.get("preview") or "")

    @property
    def duration_ms(self) -> float:
        return self.result.duration_ms if self.result else 0.0

    def finding(
        self, id: str, severity: Severity, title: str, detail: str = "", impact: str = "", tab: str = "result"
    ) -> Finding:
        """A finding that this tool call shows."""
        return Finding(
            id=id,
            severity=severity,
            title=title,
            detail=detail,
            impact=impact,
            sequence=self.call.sequence,
            tab=tab,
            where=f"Round {self.round}, {self.name[:80]}",
        )


@dataclass(frozen=True, kw_only=True)
class RunView:
    """Everything that findings are drawn from.

    `reason` is `None` while the run goes on. `left_out` are the tools that the gate kept out, as its JSON has them
    (name, reason, detail); `dropped` the sources left out of the prompt. `context_window` is the model's, in tokens;
    `estimator` counts as the run did.
    """

    steps: Sequence[RunStep]
    contents: Mapping[str, JSON] = field(default_factory=dict)
    reason: EndReason | None = None
    offered: Sequence[str] = ()
    left_out: Sequence[Mapping[str, Any]] = ()
    dropped: Sequence[Dropped] = ()
    limits: Limits = field(default_factory=Limits)
    context_window: int | None = None
    estimator: Estimator = field(default_factory=Estimator)

    @cached_property
    def rounds(self) -> list[ModelRound]:
        """The model calls, in order."""
        found: list[ModelRound] = []
        for step in self.steps:
            if step.kind is StepKind.REQUEST:
                found.append(ModelRound(request=step))
            elif found and step.kind is StepKind.CONTEXT and step.round == found[-1].number:
                found[-1].context = step
            elif found and step.kind is StepKind.RESPONSE:
                found[-1].response = step
            elif found and step.kind is StepKind.RETRY:
                found[-1].retries.append(step)
        return found

    @cached_property
    def tool_runs(self) -> list[ToolRun]:
        """The tool calls, in order."""
        found: dict[str, ToolRun] = {}
        for step in self.steps:
            call_id = str(step.data.get("call_id"))
            if step.kind is StepKind.TOOL_CALL:
                found[call_id] = ToolRun(call=step)
            elif step.kind is StepKind.TOOL_RESULT and call_id in found:
                found[call_id].result = step
        return list(found.values())

    @cached_property
    def runs_by_round(self) -> dict[int, list[ToolRun]]:
        grouped: dict[int, list[ToolRun]] = {}
        for run in self.tool_runs:
            grouped.setdefault(run.round, []).append(run)
        return grouped

    @cached_property
    def runs_by_tool(self) -> dict[str, list[ToolRun]]:
        grouped: dict[str, list[ToolRun]] = {}
        for run in self.tool_runs:
            grouped.setdefault(run.name, []).append(run)
        return grouped

    @cached_property
    def compactions(self) -> list[RunStep]:
        """Where old turns gave way to a summary, or were left out, in order."""
        return [step for step in self.steps if step.kind is StepKind.COMPACTION]

    @cached_property
    def decisions(self) -> list[RunStep]:
        """What became of the actions that the run proposed, in order."""
        return [step for step in self.steps if step.kind is StepKind.ACTION and step.data.get("event") == "decided"]

    @cached_property
    def checks(self) -> list[RunStep]:
        """Where answers were held to their schema, in order."""
        return [step for step in self.steps if step.kind is StepKind.VALIDATION]

    @cached_property
    def waited_ms(self) -> float:
        """How long the run waited for decisions: in each turn as long as for the last of its actions."""
        longest: dict[str, float] = {}
        for step in self.decisions:
            turn = str(step.data.get("digest"))
            longest[turn] = max(longest.get(turn, 0.0), step.duration_ms)
        return sum(longest.values())

    @cached_property
    def permits(self) -> list[RunStep]:
        """The waits of its calls for their permits, in order."""
        return [step for step in self.steps if step.kind is StepKind.PERMIT]

    @cached_property
    def permit_ms(self) -> float:
        """How long its calls waited for them."""
        return sum(step.duration_ms for step in self.permits)

    @cached_property
    def first_request(self) -> RunStep | None:
        """The step that shows the assembled prompt."""
        kinds = (StepKind.REQUEST, StepKind.ASSEMBLED)
        return next((step for step in self.steps if step.kind in kinds), None)

    @cached_property
    def duration_ms(self) -> float:
        """From the first step to the end of the last."""
        if not self.steps:
            return 0.0
        return max(step.started_ms + step.duration_ms for step in self.steps) - self.steps[0].started_ms

    @cached_property
    def round_ms(self) -> dict[int, float]:
        """How long each round took, from its request to its last result."""
        spans: dict[int, tuple[float, float]] = {}
        for step in self.steps:
            end = step.started_ms + step.duration_ms
            start, latest = spans.get(step.round, (step.started_ms, end))
            spans[step.round] = min(start, step.started_ms), max(latest, end)
        return {number: end - start for number, (start, end) in spans.items()}

    def content(self, digest: str | None) -> JSON:
        """What is kept under `digest`; `None` where it isn't, or no longer."""
        return self.contents.get(digest) if digest else None

    def prompt_finding(
        self, id: str, severity: Severity, title: str, detail: str = "", impact: str = "", tab: str = "messages"
    ) -> Finding:
        """A finding about the assembled prompt, which the first request shows."""
        first = self.first_request
        return Finding(
            id=id,
            severity=severity,
            title=title,
            detail=detail,
            impact=impact,
            sequence=first.sequence if first else None,
            tab=tab if first else None,
            where=f"Round {first.round}, {tab}" if first else "",
        )
