"""Findings about old turns that gave way to a summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmcore.context.summary import Problem
from llmcore.findings.finding import Finding, Severity, rounds_named, tokens
from llmcore.findings.registry import finder
from llmcore.findings.view import RunView
from llmcore.trace import RunStep


@finder
def compacted(view: RunView) -> Iterator[Finding]:
    summarized = [step for step in view.compactions if not step.data["problem"]]
    if summarized:
        first = summarized[0]
        yield compaction_finding(
            first,
            "compacted",
            Severity.NOTE,
            f"Old turns gave way to a summary in {_rounds(summarized)}",
            "The window was filling up. What the summary leaves out, the model no longer knows.",
            f"{tokens(_saved(summarized))} less",
        )


@finder
def compaction_fell_back(view: RunView) -> Iterator[Finding]:
    dropped = [step for step in view.compactions if step.data["problem"]]
    if dropped:
        first = dropped[0]
        yield compaction_finding(
            first,
            "compaction_fell_back",
            Severity.WARNING,
            f"Old turns were left out without a summary in {_rounds(dropped)}",
            f"{Problem(first.data['problem']).explanation} The model was told that they are gone. Have another "
            "configuration summarize, or give the model a larger window.",
            f"{tokens(_saved(dropped))} less",
        )


def compaction_finding(
    step: RunStep, id: str, severity: Severity, title: str, detail: str = "", impact: str = "", tab: str = "summary"
) -> Finding:
    """A finding that a compaction shows."""
    return Finding(
        id=id,
        severity=severity,
        title=title,
        detail=detail,
        impact=impact,
        sequence=step.sequence,
        tab=tab,
        where=f"Round {step.round}, compaction",
    )


def _rounds(steps: Sequence[RunStep]) -> str:
    return rounds_named([step.round for step in steps])


def _saved(steps: Sequence[RunStep]) -> int:
    return sum(step.data["tokens_before"] - step.data["tokens_after"] for step in steps)
