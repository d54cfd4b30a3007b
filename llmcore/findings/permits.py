"""Findings about permits that calls waited for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llmcore.findings.finding import Finding, Severity, code, duration, percent
from llmcore.findings.registry import finder
from llmcore.findings.view import RunView
from llmcore.trace import RunStep

_LONG_MS = 10_000


@finder
def long_permit_wait(view: RunView) -> Iterator[Finding]:
    if view.permit_ms < _LONG_MS:
        return
    longest = max(view.permits, key=lambda step: step.duration_ms)
    waited = duration(view.permit_ms)
    share = percent(view.permit_ms, max(view.duration_ms, view.permit_ms))
    yield Finding(
        id="long_permit_wait",
        severity=Severity.WARNING,
        title=f"The run waited {waited} for permits",
        detail=f"{_where(longest, len(view.permits))} {_advice(longest.data)}",
        impact=f"{waited}, {share} of the run",
        sequence=longest.sequence,
        tab="response",
        where=f"Round {longest.round}, permit",
    )


def _where(longest: RunStep, waits: int) -> str:
    """In which round, and how many others stood before the call."""
    ahead = longest.data.get("position", 0) - 1
    place = {-1: "", 0: ", first in line", 1: ", behind one other call"}.get(ahead, f", behind {ahead:,} other calls")
    if waits == 1:
        return f"It was in round {longest.round}{place}."
    return f"There were {waits:,} waits, the longest in round {longest.round}: {duration(longest.duration_ms)}{place}."


def _advice(place: Mapping[str, Any]) -> str:
    if place.get("away"):
        return "Where the calls in flight are counted could not be reached: see whether Redis and the database run."
    if place.get("of_site"):
        return "Raise `LLM_MAX_CALLS_IN_FLIGHT`, or start fewer runs at the same time."
    provider = code(str(place.get("provider") or ""))
    return f"Raise “calls at once” of {provider} as far as its rate limit goes, or start fewer runs at the same time."
