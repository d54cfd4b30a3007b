"""What the steps of earlier segments of a run say to whoever records the next ones."""

from __future__ import annotations

from collections.abc import Sequence

from llmcore.trace import RunStep, StepKind, messages_of


def sent_last(steps: Sequence[RunStep]) -> list[str]:
    """The digests of the messages that the last recorded request sent."""
    requests = [step.sequence for step in steps if step.kind is StepKind.REQUEST]
    return messages_of(steps, requests[-1]) if requests else []


def ends_with_compaction(steps: Sequence[RunStep]) -> bool:
    """Whether no request was recorded since old turns gave way to a summary."""
    kinds = (step.kind for step in reversed(steps) if step.kind in (StepKind.REQUEST, StepKind.COMPACTION))
    return next(kinds, None) is StepKind.COMPACTION


def common_prefix(first: Sequence[str], second: Sequence[str]) -> int:
    pairs = zip(first, second, strict=False)
    return next((n for n, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second)))


def open_calls(steps: Sequence[RunStep]) -> set[str]:
    started = {step.data["call_id"] for step in steps if step.kind is StepKind.TOOL_CALL}
    return started - {step.data["call_id"] for step in steps if step.kind is StepKind.TOOL_RESULT}
