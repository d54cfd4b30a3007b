"""Findings about permits that calls waited for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llmcore.findings.finding import Finding, Severity, code, duration, percent
from llmcore.findings.registry import finder
from llmcore.findings.view import ModelRound, RunView

_LONG_MS = 10_000


@finder
def long_permit_wait(view: RunView) -> Iterator[Finding]:
    waited = [call for call in view.rounds if call.permits]
    waited_ms = view.permit_ms
    if waited_ms < _LONG_MS or not waited:
        return
    worst = max(waited, key=_waited_ms)
    share = percent(waited_ms, max(view.duration_ms, waited_ms))
    yield worst.finding(
        "long_permit_wait",
        Severity.WARNING,
        f"The run waited {duration(waited_ms)} for permits",
        f"{_where(worst, len(waited))} {_advice(worst.permits[0].data)}",
        f"{duration(waited_ms)}, {share} of the run",
    )


def _waited_ms(call: ModelRound) -> float:
    return sum(step.duration_ms for step in call.permits)


def _where(worst: ModelRound, calls: int) -> str:
    """Which call it was, or which one waited longest, and how many others stood before it."""
    ahead = worst.permits[0].data.get("position", 0) - 1
    place = {-1: "", 0: ", first in line", 1: ", behind one other call"}.get(ahead, f", behind {ahead:,} other calls")
    if calls == 1:
        return f"It was the call of round {worst.number}{place}."
    return f"{calls:,} calls waited, longest that of round {worst.number}: {duration(_waited_ms(worst))}{place}."


def _advice(place: Mapping[str, Any]) -> str:
    if place.get("away"):
        return "Where the calls in flight are counted could not be reached: see whether Redis and the database run."
    if place.get("of_site"):
        return "Raise `LLM_MAX_CALLS_IN_FLIGHT`, or start fewer runs at the same time."
    provider = code(str(place.get("provider") or ""))
    return f"Raise “calls at once” of {provider} as far as its rate limit goes, or start fewer runs at the same time."
