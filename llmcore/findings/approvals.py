"""Findings about decisions that a run waited for."""

from __future__ import annotations

from collections.abc import Iterator

from llmcore.actions.proposals import DecisionKind
from llmcore.findings.finding import Finding, Severity, code, duration, percent
from llmcore.findings.registry import finder
from llmcore.findings.view import RunView
from llmcore.trace import RunStep

_LONG_MS = 60_000
_ADVICE = "Give more people the right to decide, or let a rule approve what is always approved."


@finder
def approval_waited(view: RunView) -> Iterator[Finding]:
    if view.waited_ms < _LONG_MS:
        return
    longest = max(view.decisions, key=lambda step: step.duration_ms)
    expired = longest.data.get("decision") == DecisionKind.EXPIRE
    name = code(str(longest.data.get("name") or ""))
    waited = f"The run waited {duration(view.waited_ms)} for a decision"
    share = percent(view.waited_ms, max(view.duration_ms, view.waited_ms))
    yield Finding(
        id="approval_waited",
        severity=Severity.WARNING if expired else Severity.NOTE,
        title=f"{waited} that nobody made" if expired else waited,
        detail=f"{_longest(view, longest, name)} {_ADVICE}",
        impact=f"{duration(view.waited_ms)}, {share} of the run",
        sequence=longest.sequence,
        tab="approval",
        where=f"Round {longest.round}, approval",
    )


def _longest(view: RunView, longest: RunStep, name: str) -> str:
    if len(view.decisions) == 1:
        return f"It was about {name}."
    return f"There were {len(view.decisions)}; the longest, about {name}, took {duration(longest.duration_ms)}."
