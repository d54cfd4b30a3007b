"""Findings about tool calls: refused, failed, repeated, slow, or never made."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from llmcore.errors import ErrorKind
from llmcore.findings.finding import Finding, Severity, code, percent, quoted, seconds, times, tokens
from llmcore.findings.registry import finder
from llmcore.findings.view import RunView, ToolRun
from llmcore.messages import CallProblem, ToolSpec
from llmcore.runs.outcome import EndReason
from llmcore.tools.results import FailureKind

_MANY = 3
_SLOW_MS = 5_000
_SLOW_SHARE = 0.25
_UNUSED_TOKENS = 200
_OWN_FAULTS = frozenset({FailureKind.TOOL_ERROR, FailureKind.EXCEPTION, FailureKind.TIMEOUT})


@finder
def truncated_arguments(view: RunView) -> Iterator[Finding]:
    for run in view.tool_runs:
        if run.error_kind == FailureKind.CUT_OFF or run.asked.get("problem") == CallProblem.CUT_OFF:
            detail = "The answer that asked for this call ended early, so it may be incomplete and was not run."
            yield _arguments(run, "truncated_arguments", f"The call of {code(run.name)} was cut off", detail)
        elif run.error_kind == FailureKind.PARSE or run.asked.get("problem") == CallProblem.UNDECODABLE:
            if _breaks_off(view.content(run.asked.get("arguments"))):
                detail = "Their JSON breaks off in the middle. The call was not run; the model was told so."
                title = f"The arguments of {code(run.name)} are cut off"
                yield _arguments(run, "truncated_arguments", title, _with_correction(view, [run], detail))
            else:
                title = f"The arguments of {code(run.name)} can't be read"
                yield _arguments(run, "unreadable_arguments", title, _with_correction(view, [run], quoted(run.said)))


def _arguments(run: ToolRun, id: str, title: str, detail: str) -> Finding:
    return run.finding(id, Severity.ERROR, title, detail, tab="arguments")


def _breaks_off(raw: object) -> bool:
    """Whether a text would be the beginning of a JSON value, had it gone on."""
    if not isinstance(raw, str):
        return False
    try:
        json.loads(raw)
    except json.JSONDecodeError as error:
        return error.msg.startswith("Unterminated string") or error.pos >= len(raw.rstrip())
    except RecursionError:
        return False
    return False


@finder
def choice_ignored(view: RunView) -> Iterator[Finding]:
    for call in view.rounds:
        choice = call.asked.get("tool_choice")
        if choice in (None, "auto", "none") or not call.asked.get("tools"):
            continue
        if call.got.get("finish_reason") == "stop" and not call.got.get("calls"):
            wanted = "a tool call" if choice == "required" else f"a call of {code(str(choice))}"
            yield call.finding(
                "tool_choice_ignored",
                Severity.WARNING,
                f"The server ignored that {wanted} was required in round {call.number}",
                "It answered with text. Untick “tool choice” at the model, or tick “tool calls as JSON” if it has no "
                "tool calls of its own.",
                tab="request",
            )


@finder
def not_offered(view: RunView) -> Iterator[Finding]:
    reasons = {item["name"]: item for item in view.left_out}
    for name, runs in view.runs_by_tool.items():
        refused = [run for run in runs if run.error_kind in (FailureKind.NOT_OFFERED, FailureKind.UNKNOWN_TOOL)]
        if not refused:
            continue
        if refused[0].error_kind == FailureKind.UNKNOWN_TOOL:
            detail = "This site has no tool of that name. The prompt or a skill may name it; the model may make it up."
        elif why := reasons.get(name, {}).get("detail"):
            detail = f"It was left out of this run: {quoted(str(why))}"
        else:
            detail = "It exists, but this run may not call it."
        yield refused[0].finding(
            "tool_not_offered",
            Severity.WARNING,
            f"{code(name)} was called but not offered",
            detail,
            _cost(view, refused),
        )


@finder
def repeated_calls(view: RunView) -> Iterator[Finding]:
    last: dict[tuple[str, object], ToolRun] = {}
    for run in view.tool_runs:
        if (run.asked.get("repeat") or 0) >= _MANY:
            last[run.name, run.asked.get("arguments")] = run
    for run in last.values():
        count = run.asked["repeat"]
        yield run.finding(
            "repeated_call",
            Severity.WARNING,
            f"The same call of {code(run.name)} was made {times(count)}",
            f"Its arguments were the same each time{_quoted_arguments(run)}. Its result may not tell the model what it "
            "needs.",
            f"{count - 1} extra calls",
            tab="arguments",
        )


def _quoted_arguments(run: ToolRun) -> str:
    shown = str(run.asked.get("preview") or "")
    return f": {code(shown)}" if shown else ""


@finder
def tool_errors(view: RunView) -> Iterator[Finding]:
    for name, runs in view.runs_by_tool.items():
        failures = [run for run in runs if run.error_kind in _OWN_FAULTS]
        if not failures:
            continue
        once = len(failures) == 1
        shown = failures[0] if once else failures[-1]
        yield shown.finding(
            "tool_error" if once else "tool_error_repeated",
            Severity.ERROR,
            f"{code(name)} failed" if once else f"{code(name)} failed {times(len(failures))}",
            _with_correction(view, failures, _what_failed(failures)),
            _cost(view, failures),
            tab="traceback" if shown.got.get("traceback") else "result",
        )


def _what_failed(failures: Sequence[ToolRun]) -> str:
    last = failures[-1]
    if last.error_kind == FailureKind.EXCEPTION:
        said = "It raised an exception; the traceback shows where."
    else:
        said = quoted(last.said)
    if not said:
        # What it said is not kept.
        return ""
    if len(failures) > 1 and len({run.said for run in failures}) == 1:
        return f"Each time the same: {said}"
    return said if len(failures) == 1 else f"Last: {said}"


@finder
def schema_violations(view: RunView) -> Iterator[Finding]:
    for name, runs in view.runs_by_tool.items():
        violations = [run for run in runs if run.error_kind == FailureKind.SCHEMA]
        if not violations:
            continue
        count = "" if len(violations) == 1 else f" {times(len(violations))}"
        # The text for the model begins with a sentence of its own, then lists what is wrong.
        objection = violations[-1].said.partition(": - ")[2].partition(" - ")[0] or violations[-1].said
        yield violations[-1].finding(
            "schema_violation",
            Severity.WARNING,
            f"{code(name)} was called with wrong arguments{count}",
            _with_correction(view, violations, quoted(objection.removesuffix("Correct them and call the tool again."))),
            _cost(view, violations),
            tab="arguments",
        )


def _with_correction(view: RunView, failures: Sequence[ToolRun], detail: str) -> str:
    """`detail`, and whether the model found a way out."""
    last = failures[-1].call.sequence
    later = (run for run in view.runs_by_tool[failures[-1].name] if run.call.sequence > last and run.succeeded)
    corrected = next(later, None)
    if corrected is None:
        return detail
    return f"{detail} The model corrected the call in round {corrected.round}."


def _cost(view: RunView, failures: Sequence[ToolRun]) -> str:
    """The rounds that brought nothing but failures, else the failed calls."""
    numbers = sorted({run.round for run in failures})
    wasted = [number for number in numbers if not any(run.succeeded for run in view.runs_by_round[number])]
    if not wasted:
        return f"{len(failures)} call{'s' if len(failures) > 1 else ''}"
    lost = sum(view.round_ms.get(number, 0.0) for number in wasted)
    return f"+{len(wasted)} round{'s' if len(wasted) > 1 else ''}, {seconds(lost)}"


@finder
def effect_unknown(view: RunView) -> Iterator[Finding]:
    for run in view.tool_runs:
        if run.got.get("effect_unknown"):
            yield run.finding(
                "effect_unknown",
                Severity.ERROR,
                f"Whether {code(run.name)} had an effect is unknown",
                f"{quoted(run.said)} Look at what it changes before you run this again.",
            )


@finder
def cut_results(view: RunView) -> Iterator[Finding]:
    for name, runs in view.runs_by_tool.items():
        cut = [run for run in runs if run.got.get("full") and run.error_kind != FailureKind.DENIED]
        if cut:
            largest = max(cut, key=lambda run: run.got.get("bytes") or 0)
            limit, whole = view.limits.max_tool_result_bytes, largest.got.get("bytes") or 0
            yield largest.finding(
                "result_cut",
                Severity.NOTE,
                f"The model did not see all of what {code(name)} returned",
                f"Of {whole / 1000:,.1f} kB it got {limit / 1000:,.1f} kB; the answer can't rely on the rest.",
                f"−{(whole - limit) / 1000:,.1f} kB" if whole > limit else "",
            )


@finder
def slow_tools(view: RunView) -> Iterator[Finding]:
    # What the run waited for people and permits says nothing about its tools.
    waits_ms = view.waited_ms + view.permit_ms
    worked_ms = view.duration_ms - waits_ms
    for name, runs in view.runs_by_tool.items():
        slowest = max(runs, key=lambda run: run.duration_ms)
        spent = sum(run.got.get("wall_ms", run.duration_ms) for run in runs)
        if slowest.duration_ms < _SLOW_MS or spent < worked_ms * _SLOW_SHARE:
            continue
        yield slowest.finding(
            "slow_tool",
            Severity.WARNING,
            f"{code(name)} is slow",
            f"Its longest run took {seconds(slowest.duration_ms)}.",
            f"{seconds(spent)}, {percent(spent, worked_ms)} of the run{' without its waits' if waits_ms else ''}",
        )


@finder
def unused_tools(view: RunView) -> Iterator[Finding]:
    """Only of runs that came to an answer: one that failed may not have come to its tools."""
    if view.reason is not EndReason.COMPLETED or not view.rounds:
        return
    first = view.rounds[0]
    specs = [ToolSpec.from_json(item) for item in view.content(first.asked.get("tools")) or ()]
    unused = [spec for spec in specs if spec.name not in view.runs_by_tool]
    cost = view.estimator.tools(unused)
    if cost >= _UNUSED_TOKENS:
        yield first.finding(
            "unused_tools",
            Severity.NOTE,
            f"{len(unused)} of {len(specs)} offered tools were never called",
            _named(unused),
            f"{tokens(cost)} per round",
            tab="tools",
        )


@finder
def mostly_tool_definitions(view: RunView) -> Iterator[Finding]:
    if not view.rounds:
        return
    first = view.rounds[0]
    specs = [ToolSpec.from_json(item) for item in view.content(first.asked.get("tools")) or ()]
    defined, whole = view.estimator.tools(specs), first.asked.get("input_tokens_estimate") or 0
    if defined >= 1_000 and defined > whole / 2:
        yield first.finding(
            "mostly_tool_definitions",
            Severity.NOTE,
            "Most of the prompt is tool definitions",
            f"{len(specs)} definitions take about {defined:,} of {tokens(whole)} in round 1. Offer fewer tools, or "
            "shorten their descriptions.",
            f"{percent(defined, whole)} of the prompt",
            tab="tools",
        )


@finder
def malformed_calls(view: RunView) -> Iterator[Finding]:
    for call in view.rounds:
        if call.error.get("kind") in (ErrorKind.MALFORMED_TOOL_CALL, ErrorKind.TOOL_USE_FAILED):
            detail = f"{quoted(str(call.error.get('message') or ''))} Simplify the tool, or offer fewer of them."
            title = f"The model's tool call in round {call.number} could not be read by the provider"
            yield call.finding("malformed_tool_call", Severity.ERROR, title, detail)


def _named(specs: Sequence[ToolSpec]) -> str:
    shown = ", ".join(code(spec.name) for spec in specs[:8])
    return f"{shown} and {len(specs) - 8} more." if len(specs) > 8 else f"{shown}."
