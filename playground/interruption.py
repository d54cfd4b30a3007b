"""What an interruption leaves behind, in words."""

from __future__ import annotations

from collections.abc import Sequence

from llmcore.tools.base import Effect
from llmcore.trace import RunStep, StepKind


def running_calls(steps: Sequence[RunStep]) -> list[RunStep]:
    """The tool calls that were started and have no result."""
    ended = {step.data["call_id"] for step in steps if step.kind is StepKind.TOOL_RESULT}
    return [step for step in steps if step.kind is StepKind.TOOL_CALL and step.data["call_id"] not in ended]


def unsafe_calls(steps: Sequence[RunStep]) -> list[RunStep]:
    """Those of them that must not run again: their effect is unknown."""
    return [step for step in running_calls(steps) if step.data.get("effect") == Effect.NON_IDEMPOTENT_WRITE]


def interruption_detail(cause: str, steps: Sequence[RunStep]) -> str:
    """`cause`, what is kept, and the writes in flight by name."""
    kept = f"All {len(steps)} recorded steps are kept" if steps else "Nothing had been sent yet"
    return " ".join(filter(None, (cause, f"{kept}; the run can go on from there.", unsafe_detail(steps))))


def unsafe_detail(steps: Sequence[RunStep]) -> str:
    """Names the writes in flight; empty where there are none."""
    names = ", ".join(f"“{step.data['name']}”" for step in unsafe_calls(steps))
    if not names:
        return ""
    return f"A write was in flight: {names}. Whether it took effect is unknown, and it will not be repeated."
