"""The figures of a run, kept up to date step by step: rounds, tokens, cost, and times that add up."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from llmcore.tools.results import FailureKind
from llmcore.trace import RunStep, StepKind
from llmcore.usage import Usage, add_up
from playground.models import Run

SUMMED = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "reasoning_output_tokens",
)


class Figures:
    """What a run used so far. Counts that no call reported stay `None`; each step costs the same to add."""

    def __init__(self, steps: Iterable[RunStep] = ()) -> None:
        self.rounds = 0
        self.cost: Decimal | None = None
        self.context_peak: int | None = None
        self.model_ms = 0.0
        self.tool_ms = 0.0
        self.permit_ms = 0.0
        self.served_by = ""
        self._usage = Usage()
        self._calls: set[str] = set()
        self._failed_calls: set[str] = set()
        self._denied_calls: set[str] = set()
        self._estimate: int | None = None
        for step in steps:
            self.add(step)

    def add(self, step: RunStep) -> None:
        match step.kind:
            case StepKind.REQUEST:
                self.rounds = max(self.rounds, step.round)
                self._estimate = step.data.get("input_tokens_estimate")
            case StepKind.RESPONSE:
                # Without what its later attempts waited for permits: those waits are steps of their own.
                self.model_ms += step.duration_ms - step.data.get("permit_ms", 0.0)
                self._add_response(step)
            case StepKind.COMPACTION:
                self.model_ms += step.duration_ms - step.data.get("permit_ms", 0.0)
                self._add_usage(step)
            case StepKind.PERMIT:
                self.permit_ms += step.duration_ms
            case StepKind.TOOL_CALL:
                self._calls.add(step.data["call_id"])
            case StepKind.TOOL_RESULT:
                self._add_result(step)

    def _add_response(self, step: RunStep) -> None:
        self.served_by = step.data.get("falls_back_to") or self.served_by
        usage = self._add_usage(step)
        size = usage.input_tokens if usage and usage.input_tokens is not None else self._estimate
        if size is not None:
            self.context_peak = max(self.context_peak or 0, size)

    def _add_usage(self, step: RunStep) -> Usage | None:
        """Count what a call used, and give it."""
        reported = step.data.get("usage")
        usage = Usage.from_json({**reported, "raw": None}) if reported else None
        self._usage = add_up([self._usage, usage])
        if (cost := step.data.get("cost")) is not None:
            self.cost = (self.cost or Decimal(0)) + Decimal(cost)
        return usage

    def _add_result(self, step: RunStep) -> None:
        call_id = step.data["call_id"]
        self._failed_calls.discard(call_id)
        self._denied_calls.discard(call_id)
        if step.data.get("error_kind") == FailureKind.DENIED:
            self._denied_calls.add(call_id)
        elif step.data.get("is_error"):
            self._failed_calls.add(call_id)
        # Without what an earlier call covers: tools that ran at the same time count once.
        self.tool_ms += step.data.get("wall_ms", step.duration_ms)

    def columns(self) -> dict[str, Any]:
        """The columns of `Run` but the times of the whole."""
        return {
            "rounds": self.rounds,
            "tool_calls": len(self._calls),
            "tool_errors": len(self._failed_calls),
            "tool_denials": len(self._denied_calls),
            "cost": self.cost,
            "context_peak": self.context_peak,
            "served_by": self.served_by,
            **{name: getattr(self._usage, name) for name in SUMMED},
        }


def times(
    *, wall_ms: float, queue_ms: float, permit_ms: float, model_ms: float, tool_ms: float, approval_ms: float
) -> dict[str, float]:
    """The columns of time; overhead is the rest, so that the parts add up to the wall time."""
    parts = queue_ms + permit_ms + model_ms + tool_ms + approval_ms
    # Queue and age come from two clocks: the parts can exceed the whole by a hair.
    wall_ms = max(wall_ms, parts)
    return {
        "wall_ms": wall_ms,
        "queue_ms": queue_ms,
        "permit_ms": permit_ms,
        "model_ms": model_ms,
        "tool_ms": tool_ms,
        "approval_ms": approval_ms,
        "overhead_ms": wall_ms - parts,
    }


def times_of(run: Run, *, now: datetime, waiting: bool) -> dict[str, float]:
    """The columns of time of a run that no worker drives any more; `waiting`: for one, or for a decision, until now."""
    waited_ms = milliseconds(now - run.queued_at) if waiting and run.suspended_at is None else 0.0
    return times(
        wall_ms=milliseconds(now - run.created_at),
        queue_ms=(run.queue_ms or 0.0) + max(waited_ms, 0.0),
        permit_ms=run.permit_ms or 0.0,
        model_ms=run.model_ms or 0.0,
        tool_ms=run.tool_ms or 0.0,
        approval_ms=approval_ms(run, now),
    )


def approval_ms(run: Run, now: datetime) -> float:
    """How long the run has waited for decisions until `now`."""
    waiting_ms = milliseconds(now - run.suspended_at) if run.suspended_at else 0.0
    return (run.approval_ms or 0.0) + max(waiting_ms, 0.0)


def milliseconds(duration: timedelta) -> float:
    return duration / timedelta(milliseconds=1)
