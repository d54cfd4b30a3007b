"""Pairs the recorded steps of a run into the lines of its step list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from llmcore.context.budget import WindowUse
from llmcore.context.estimator import Estimator
from llmcore.runs.outcome import EndReason
from llmcore.tools.results import FailureKind
from llmcore.trace import StepKind
from playground.numbers import plural
from playground.reading.lines import Badge, Bar, Line
from playground.reading.step_rows import StepRow
from playground.reading.window_bar import WindowBar

MANY_REPEATS = 3
# How a call was answered whose tool did not run.
REPLACED = {"recorded": "recorded", "typed": "typed in"}
DECISIONS = {
    "approve": Badge("approved", "new"),
    "deny": Badge("denied", "err"),
    "expire": Badge("expired", "chg"),
    "withdraw": Badge("withdrawn"),
}
DECISION_ICONS = {"approve": "check", "deny": "x", "expire": "clock", "withdraw": "slash"}
FAILURES = {
    "parse": "bad arguments",
    "schema": "bad arguments",
    "unknown_tool": "unknown tool",
    "not_offered": "not offered",
    "timeout": "timed out",
    "cut_off": "cut off",
    "halted": "halted",
    "cancelled": "cancelled",
    "round_limit": "not run",
    "needs_approval": "not approved",
    "interrupted": "interrupted",
}


class LineReader:
    """Reads the steps of one run in their order. `lead` is how long, in milliseconds, the run waited before its steps
    began to count; of a `live` run what is open now may still get its end. `estimator` counts as the run did."""

    def __init__(self, lead: float, *, live: bool, estimator: Estimator) -> None:
        self._lead = lead
        self._estimator = estimator
        self._live = live
        self._lines: list[Line] = []
        self._call: Line | None = None
        self._requested: Line | None = None
        self._waits: list[Bar] = []
        self._tools: dict[str, Line] = {}
        self._actions: dict[str, Line] = {}

    def read(self, rows: Iterable[StepRow]) -> list[Line]:
        for row in rows:
            started_ms = row.started_ms + self._lead
            step = StepRow(row.sequence, row.round, row.kind, started_ms, row.duration_ms, row.data)
            match step.kind:
                case StepKind.REQUEST | StepKind.ASSEMBLED:
                    self._request(step, assembled=step.kind == StepKind.ASSEMBLED)
                case StepKind.CONTEXT:
                    self._context(step)
                case StepKind.PERMIT:
                    self._permit(step)
                case StepKind.COMPACTION:
                    self._compaction(step)
                case StepKind.RESPONSE:
                    self._response(step)
                case StepKind.TOOL_CALL:
                    self._tool_call(step)
                case StepKind.TOOL_RESULT:
                    self._tool_result(step)
                case StepKind.ACTION:
                    self._action(step)
                case StepKind.VALIDATION:
                    self._validation(step)
                case StepKind.RETRY:
                    self._retry(step)
                case StepKind.ERROR:
                    self._error(step)
                case _:
                    self._add(step, name=step.kind.replace("_", " ").capitalize(), icon="clock", css="other")
        if not self._live:
            self._abandon()
        return self._lines

    def _add(self, step: StepRow, *, ended: bool = True, **attributes: Any) -> Line:
        line = Line(
            sequence=step.sequence,
            round=step.round,
            started_ms=step.started_ms,
            duration_ms=step.duration_ms if ended else None,
            steps=[step.sequence],
            **attributes,
        )
        if ended:
            line.bars = [Bar(step.started_ms, step.duration_ms, "terr" if line.failed else "over")]
        self._lines.append(line)
        return line

    def _request(self, step: StepRow, *, assembled: bool) -> None:
        self._abandon()
        line = self._add(
            step,
            ended=assembled,
            name="Assembled prompt" if assembled else "Model call",
            icon="eye" if assembled else "model",
            css="call",
            tokens=step.data.get("input_tokens_estimate"),
            estimated=True,
        )
        self._requested, self._waits = line, []
        if step.data.get("last"):
            line.badges.append(Badge("last, no tools", "chg"))
        if step.data.get("repairs"):
            line.badges.append(Badge("repaired", "chg"))
        if not assembled:
            line.running = True
            line.bars = [Bar(step.started_ms, 0.0, "wait")]
            self._call = line

    def _context(self, step: StepRow) -> None:
        """Where the window went is told with the request that it was recorded for."""
        line = self._requested
        if line is None or line.round != step.round:
            # The window had no room for the request.
            line = self._add(step, name="Context window", icon="compress", css="other", failed=True)
            line.badges.append(Badge("full", "err"))
        else:
            line.steps.append(step.sequence)
        line.window = WindowBar(WindowUse.from_json(step.data))

    def _permit(self, step: StepRow) -> None:
        """A wait for a permit is a part of the call that waited."""
        line = self._call
        if line is None:
            self._add(step, name="Waited for a permit", icon="clock", css="other").bars = [_wait_of(step)]
            return
        line.steps.append(step.sequence)
        self._waits.append(_wait_of(step))
        line.started_ms = step.end_ms
        line.bars = [*self._waits, Bar(step.end_ms, 0.0, "wait")]

    def _compaction(self, step: StepRow) -> None:
        saved = (step.data.get("tokens_after") or 0) - (step.data.get("tokens_before") or 0)
        line = self._add(step, name="Compaction", icon="compress", css="compaction", tokens=saved)
        line.bars = [Bar(step.started_ms, step.duration_ms, "model")]
        if step.data.get("problem"):
            line.badges.append(Badge("no summary", "chg"))

    def _response(self, step: StepRow) -> None:
        line = self._call
        if line is None:
            line = self._add(step, name="Model call", icon="model", css="call")
        self._call = None
        data = step.data
        line.running = False
        line.steps.append(step.sequence)
        line.started_ms, line.duration_ms = step.started_ms, step.duration_ms
        fell_back = bool(data.get("falls_back_to"))
        # As with an attempt that is made again, somebody went on from there.
        line.failed = bool(data.get("error")) and not fell_back
        line.bars = _with_waits(_call_bars(step, failed=bool(data.get("error"))), self._waits)
        self._waits = []
        line.sent = data.get("attempts") != 0
        if (total := _total_tokens(data.get("usage"))) is not None:
            line.tokens, line.estimated = total, False
        if fell_back:
            line.icon = "retry"
            line.badges.append(Badge("fell back", "chg"))
        elif line.failed:
            line.badges.append(Badge("failed" if line.sent else "not sent", "err"))
        elif data.get("cancelled"):
            line.badges.append(Badge("cancelled" if line.sent else "not sent"))
        elif data.get("choice_ignored"):
            line.badges.append(Badge("no call", "chg"))
        elif data.get("finish_reason") == "length":
            line.badges.append(Badge("cut off", "chg"))
        elif data.get("finish_reason") == "content_filter":
            line.badges.append(Badge("filtered", "chg"))

    def _tool_call(self, step: StepRow) -> None:
        call_id = step.data.get("call_id", "")
        if earlier := self._tools.pop(call_id, None):
            _leave_open(earlier, "interrupted")
        line = self._add(
            step, ended=False, name=step.data.get("name") or "(no name)", icon="tool", css="tool", call_id=call_id
        )
        line.running = True
        line.bars = [Bar(step.started_ms, 0.0, "ttool")]
        if (repeat := step.data.get("repeat") or 1) >= MANY_REPEATS:
            line.badges.append(Badge(f"{repeat}× the same", "chg"))
        if replaced := step.data.get("replaced"):
            line.badges.append(Badge(REPLACED.get(replaced, replaced), "info"))
        self._tools[call_id] = line

    def _tool_result(self, step: StepRow) -> None:
        data = step.data
        line = self._tools.pop(data.get("call_id", ""), None)
        if line is None:
            line = self._add(step, name=data.get("name") or "(no name)", icon="tool", css="tool")
        line.running = False
        line.steps.append(step.sequence)
        line.started_ms, line.duration_ms = step.started_ms, step.duration_ms
        # Somebody wanted it so: the model is told of an error, and nothing failed.
        denied = data.get("error_kind") == FailureKind.DENIED
        line.failed = bool(data.get("is_error")) and not denied
        line.bars = [Bar(line.started_ms, line.duration_ms, "terr" if line.failed else "ttool")]
        if data.get("bytes") is not None and not data.get("full"):
            line.tokens, line.estimated = self._estimator.size(data["bytes"]), True
        if data.get("effect_unknown"):
            line.badges.append(Badge("effect unknown", "err"))
        elif denied:
            line.badges.append(Badge("denied", "err"))
        elif line.failed:
            line.badges.append(Badge(FAILURES.get(data.get("error_kind") or "", "failed"), "err"))
        elif data.get("full"):
            line.badges.append(Badge("shortened", "chg"))

    def _action(self, step: StepRow) -> None:
        """A proposed action is one line, from its proposal to its decision."""
        call_id, name = step.data.get("call_id", ""), step.data.get("name") or "(no name)"
        earlier = self._actions.pop(call_id, None)
        if step.data.get("event") == "decided":
            line = earlier or self._add(step, name=name, icon="lock", css="approval")
            line.running = False
            line.duration_ms = step.duration_ms
            line.bars = [Bar(line.started_ms, step.duration_ms, "approval")]
            decision = step.data.get("decision") or ""
            line.badges = [DECISIONS.get(decision, Badge("decided"))]
            # The list may have no room for the word.
            line.icon = DECISION_ICONS.get(decision, line.icon)
            if step.sequence not in line.steps:
                line.steps.append(step.sequence)
            return
        if earlier is not None:
            _leave_open(earlier, "proposed again")
        line = self._add(step, ended=False, name=name, icon="lock", css="approval")
        line.running = True
        line.bars = [Bar(step.started_ms, 0.0, "approval")]
        line.badges.append(Badge("waits", "appr"))
        self._actions[call_id] = line

    def _validation(self, step: StepRow) -> None:
        valid, count = bool(step.data.get("valid")), step.data.get("count") or 0
        line = self._add(
            step, name="Answer checked", icon="check" if valid else "braces", css="valid" if valid else "invalid"
        )
        if valid:
            line.badges.append(Badge("valid", "new"))
        else:
            again = bool(step.data.get("repair"))
            line.failed = not again
            line.badges.append(Badge(plural(count, "objection"), "chg" if again else "err"))

    def _retry(self, step: StepRow) -> None:
        attempt = step.data.get("attempt") or 1
        self._add(step, name=f"Attempt {attempt} failed", icon="retry", css="retry").badges.append(
            Badge(str((step.data.get("error") or {}).get("kind") or "error").replace("_", " "), "chg")
        )

    def _error(self, step: StepRow) -> None:
        if step.data.get("kind") == EndReason.HALTED:
            self._add(step, name="Halted by a hook", icon="hand", css="error")
        else:
            self._add(step, name="Error", icon="error", css="error", failed=True)

    def _abandon(self) -> None:
        """What is open now will get no end any more: its worker was lost, or the run was stopped."""
        if self._call is not None:
            _leave_open(self._call, "no response")
            self._call = None
        for line in self._tools.values():
            _leave_open(line, "no result")
        self._tools = {}
        for line in self._actions.values():
            line.badges = []
            _leave_open(line, "not decided")
        self._actions = {}


def _leave_open(line: Line, word: str) -> None:
    line.running = False
    line.badges.append(Badge(word, "chg"))


def _call_bars(step: StepRow, *, failed: bool) -> list[Bar]:
    """A call's time: until the first token, thinking, then streaming the rest."""
    first = step.data.get("first_token_ms")
    if failed:
        return [Bar(step.started_ms, step.duration_ms, "terr")]
    if first is None:
        return [Bar(step.started_ms, step.duration_ms, "model")]
    wait = min(first, step.duration_ms)
    thinking = min(step.data.get("thinking_ms") or 0.0, step.duration_ms - wait)
    parts = ((wait, "wait"), (thinking, "think"), (step.duration_ms - wait - thinking, "model"))
    bars, start = [], step.started_ms
    for length, css in parts:
        if length > 0:
            bars.append(Bar(start, length, css))
            start += length
    return bars


def _wait_of(step: StepRow) -> Bar:
    return Bar(step.started_ms, step.duration_ms, "permit")


def _with_waits(bars: Iterable[Bar], waits: Iterable[Bar]) -> list[Bar]:
    """The bars of a call with its waits for permits in their places: no time is drawn twice."""
    waits = list(waits)
    pieces = list(waits)
    for bar in bars:
        start, end = bar.start_ms, bar.start_ms + bar.length_ms
        for wait in waits:
            if start < wait.start_ms < end:
                pieces.append(Bar(start, wait.start_ms - start, bar.css))
            if wait.start_ms < end:
                start = max(start, wait.start_ms + wait.length_ms)
        if start < end or not waits:
            pieces.append(Bar(start, max(end - start, 0.0), bar.css))
    return sorted(pieces, key=lambda piece: piece.start_ms)


def _total_tokens(usage: Mapping[str, Any] | None) -> int | None:
    """Prompt and answer of a call together; `None` unless both are known."""
    if not usage or usage.get("input_tokens") is None or usage.get("output_tokens") is None:
        return None
    return int(usage["input_tokens"]) + int(usage["output_tokens"])
