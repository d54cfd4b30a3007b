"""Findings about calls that were answered without running their tool."""

from __future__ import annotations

from collections.abc import Iterator

from llmcore.findings.finding import Finding, Severity, code
from llmcore.findings.registry import finder
from llmcore.findings.view import RunView
from llmcore.tools.results import FailureKind


@finder
def recorded_arguments_differ(view: RunView) -> Iterator[Finding]:
    for name, runs in view.runs_by_tool.items():
        others = [run for run in runs if (run.got.get("origin") or {}).get("differs")]
        if others:
            origin = others[0].got["origin"]
            calls = "A call" if len(others) == 1 else f"{len(others)} calls"
            detail = (
                f"{calls} had other arguments than any in run {origin['run']}, so the next recorded result was given."
            )
            title = f"{code(name)} got a recorded result of another call"
            yield others[0].finding("recorded_arguments_differ", Severity.WARNING, title, detail)


@finder
def not_recorded(view: RunView) -> Iterator[Finding]:
    for name, runs in view.runs_by_tool.items():
        missing = [run for run in runs if run.error_kind == FailureKind.NOT_RECORDED]
        if missing:
            number = (missing[0].got.get("origin") or {}).get("run")
            detail = f"Run {number} has no further result of it. Let the tool run, or type in its result."
            title = f"No recorded result was left for {code(name)}"
            yield missing[0].finding("not_recorded", Severity.ERROR, title, detail)
