"""Findings about the limits of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from llmcore.findings.finding import Finding, Severity, code
from llmcore.findings.registry import finder
from llmcore.findings.view import RunView
from llmcore.runs.outcome import EndReason


@finder
def out_of_rounds(view: RunView) -> Iterator[Finding]:
    if view.reason is not EndReason.MAX_ROUNDS or not view.rounds:
        return
    last, allowed = view.rounds[-1], view.limits.max_rounds
    wanted = [str(call.get("name", "")) for call in last.got.get("calls") or ()]
    before = [run.name for run in view.runs_by_round.get(last.number - 1, ())]
    if wanted:
        detail = f"The model still wanted to call {_names(wanted)}; it was not run."
    elif before:
        detail = f"The model was still calling {_names(before)}, and had to give its last answer without tools."
    else:
        detail = "The model had to give its last answer without tools."
    yield last.finding(
        "max_rounds_with_work_left",
        Severity.ERROR,
        f"The limit of {allowed} round{'s' if allowed != 1 else ''} was reached with work left",
        f"{detail} Raise the configuration's rounds, or give it less to do.",
        f"{allowed} of {allowed} rounds",
    )


def _names(names: Iterable[str]) -> str:
    different = list(dict.fromkeys(names))
    shown = ", ".join(code(name) for name in different[:4])
    return f"{shown} and {len(different) - 4} more" if len(different) > 4 else shown
