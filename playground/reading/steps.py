"""The step list of a run: its recorded steps as lines with bars, grouped by rounds.

A line is what a reader opens: a model call (its request and response steps), a tool run (its call and result), a
retry, an error. It is addressed by the sequence of its first step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from llmcore.runs.outcome import EndReason, RunStatus
from llmcore.trace import StepKind
from playground.models import Run, RunStep

# Sequences of recorded steps begin with 1; this address is the start of the run itself.
START = 0
LIVE = frozenset({RunStatus.QUEUED.value, RunStatus.RUNNING.value, RunStatus.AWAITING_APPROVAL.value})
# A bar thinner than this part of the axis would not be seen.
MIN_WIDTH = 0.8
MANY_REPEATS = 3
# How a call was answered whose tool did not run.
REPLACED = {"recorded": "recorded", "typed": "typed in"}
ROUND_AXES = [1000 * s for s in (5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400)]


@dataclass(frozen=True, slots=True)
class StepRow:
    """The columns of a recorded step."""

    sequence: int
    round: int
    kind: str
    started_ms: float
    duration_ms: float
    data: Mapping[str, Any]

    @property
    def end_ms(self) -> float:
        return self.started_ms + self.duration_ms


@dataclass(frozen=True, slots=True)
class Bar:
    """A piece of a line's time, in milliseconds since the run was created."""

    start_ms: float
    length_ms: float
    css: str


@dataclass(frozen=True, slots=True)
class Rect:
    """A bar as it is drawn: percent of the axis. `start_ms` and `length_ms` are what another axis draws it from."""

    x: str
    width: str
    css: str
    start_ms: int = 0
    length_ms: int = 0


@dataclass(frozen=True, slots=True)
class Badge:
    """A word on a line that says what is special about it."""

    word: str
    css: str = ""


@dataclass(kw_only=True, slots=True)
class Line:
    """One line of the step list. `duration_ms` is `None` where no end was recorded; then it may be `running`."""

    sequence: int
    round: int
    name: str
    icon: str
    css: str = ""
    call_id: str = ""
    started_ms: float = 0.0
    duration_ms: float | None = None
    tokens: int | None = None
    estimated: bool = False
    failed: bool = False
    running: bool = False
    badges: list[Badge] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    rects: list[Rect] = field(default_factory=list)

    @property
    def is_tool(self) -> bool:
        return self.css == "tool"

    @property
    def label(self) -> str:
        name = f"Approval of {self.name}" if self.css == "approval" else self.name
        return f"Round {self.round} · {name}" if self.round and self.css != "start" else name

    @property
    def works(self) -> bool:
        """Whether something is being done, not only waited for."""
        return self.running and self.css != "approval"

    @property
    def icon_css(self) -> str:
        if self.failed:
            return "err"
        return {"tool": "tool", "call": "", "retry": "warn", "approval": "appr"}.get(self.css, "sys")

    @property
    def end_ms(self) -> float:
        return self.started_ms + (self.duration_ms or 0.0)

    @property
    def shown_icon(self) -> str:
        return "error" if self.failed and self.css in ("tool", "call") else self.icon


@dataclass(kw_only=True, slots=True)
class Round:
    """The lines of one round; round 0 holds what came before the first one.

    Of a filtered list `matching` are the lines to show; `position` is the round's place among all that are listed,
    counted from 1, where a page doesn't hold them all.
    """

    number: int
    lines: list[Line]
    rect: Rect | None = None
    matching: list[Line] | None = None
    position: int | None = None

    @property
    def shown(self) -> list[Line]:
        return self.lines if self.matching is None else self.matching

    @property
    def label(self) -> str:
        return f"Round {self.number}" if self.number else "Start"

    @property
    def started_ms(self) -> float:
        return min((line.started_ms for line in self.lines), default=0.0)

    @property
    def end_ms(self) -> float:
        return max((line.end_ms for line in self.lines), default=0.0)

    @property
    def duration_ms(self) -> float:
        return self.end_ms - self.started_ms

    @property
    def running(self) -> bool:
        return any(line.running for line in self.lines)

    @property
    def failed(self) -> bool:
        return any(line.failed for line in self.lines)

    @property
    def _call(self) -> Line | None:
        """The last of them: those before it were broken off, or asked of another model."""
        return next((line for line in reversed(self.lines) if line.css == "call"), None)

    @property
    def tokens(self) -> int | None:
        return self._call.tokens if self._call else None

    @property
    def estimated(self) -> bool:
        return bool(self._call and self._call.estimated)


@dataclass(kw_only=True, slots=True)
class StepList:
    """All rounds of a run; drawn, on an axis of time that is `axis_ms` long."""

    rounds: list[Round]
    axis_ms: float = 0.0

    @property
    def lines(self) -> list[Line]:
        return [line for round in self.rounds for line in round.lines]

    @property
    def last(self) -> int:
        """The newest recorded step that is in the list."""
        return max((sequence for line in self.lines for sequence in line.steps), default=START)

    @property
    def failed(self) -> int:
        return sum(line.failed for line in self.lines)

    @property
    def tools(self) -> int:
        return sum(line.is_tool for line in self.lines)


def lead_ms(run: Run) -> float:
    """How long the run waited before its steps began to count."""
    return max((run.started_at - run.created_at) / timedelta(milliseconds=1), 0.0) if run.started_at else 0.0


def is_live(run: Run) -> bool:
    return run.status in LIVE


def load_rows(steps: QuerySet[RunStep]) -> list[StepRow]:
    """Recorded steps in order, in one query; their heavy contents stand elsewhere."""
    columns = ("sequence", "round", "kind", "started_ms", "duration_ms", "data")
    return [StepRow(*row) for row in steps.order_by("sequence").values_list(*columns)]


def read_steps(run: Run, rows: Sequence[StepRow], now: datetime) -> StepList:
    """The step list of `rows`, which hold whole rounds, drawn on the axis of the run as it is `now`."""
    rounds = read_rounds(run, rows)
    axis = axis_of(run, rounds, now)
    draw(rounds, axis)
    return StepList(rounds=rounds, axis_ms=axis)


def read_rounds(run: Run, rows: Sequence[StepRow]) -> list[Round]:
    """The rounds of `rows` in their order, not yet drawn."""
    rounds: dict[int, Round] = {}
    for line in [queued_line(run), *read_lines(run, rows)]:
        rounds.setdefault(line.round, Round(number=line.round, lines=[])).lines.append(line)
    return [rounds[number] for number in sorted(rounds)]


def read_lines(run: Run, rows: Sequence[StepRow]) -> list[Line]:
    """The lines of `rows`, which hold whole rounds; not yet drawn. Only the newest steps of a live run may be open."""
    newest = bool(rows) and rows[-1].sequence >= run.last_sequence
    return _Reader(lead_ms(run), live=newest and is_live(run)).read(rows)


def age_ms(run: Run, now: datetime) -> float:
    return max((now - run.created_at) / timedelta(milliseconds=1), 0.0)


def axis_of(run: Run, rounds: Iterable[Round], now: datetime) -> float:
    """The length of the axis: all of a run that ended; for a live one a round time that leaves it room to grow."""
    longest = max((round.end_ms for round in rounds), default=0.0)
    if not is_live(run):
        return max(longest, run.wall_ms or 0.0, 1.0)
    return roomy_axis(max(longest, age_ms(run, now)))


def roomy_axis(reached_ms: float) -> float:
    """A round time with room for more than what was reached."""
    return next((axis for axis in ROUND_AXES if axis >= reached_ms), 2 * reached_ms)


def queued_line(run: Run) -> Line:
    waited = lead_ms(run) if run.started_at else (run.queue_ms or 0.0)
    waiting = run.status == RunStatus.QUEUED.value
    return Line(
        sequence=START,
        round=0,
        name="Queued",
        icon="clock",
        css="start",
        duration_ms=None if waiting else waited,
        running=waiting,
        bars=[Bar(0.0, waited, "queue")],
        steps=[START],
    )


def draw(rounds: Iterable[Round], axis_ms: float, origin_ms: float = 0.0) -> None:
    """Set the rectangles of `rounds` on an axis that begins at `origin_ms`."""

    def rect(start_ms: float, length_ms: float, css: str) -> Rect:
        x, width = _percent(start_ms - origin_ms, axis_ms), _percent(length_ms, axis_ms, MIN_WIDTH)
        return Rect(x, width, css, round(start_ms), round(length_ms))

    for drawn in rounds:
        for line in drawn.lines:
            line.rects = [rect(bar.start_ms, bar.length_ms, bar.css) for bar in line.bars]
        drawn.rect = rect(drawn.started_ms, drawn.duration_ms, "over")


def _percent(ms: float, axis: float, least: float = 0.0) -> str:
    return f"{max(100 * ms / axis, least):.2f}".rstrip("0").rstrip(".")


class _Reader:
    """Pairs the steps of a run, in order, into lines."""

    def __init__(self, lead: float, *, live: bool) -> None:
        self._lead = lead
        self._live = live
        self._lines: list[Line] = []
        self._call: Line | None = None
        self._tools: dict[str, Line] = {}
        self._actions: dict[str, Line] = {}

    def read(self, rows: Iterable[StepRow]) -> list[Line]:
        for row in rows:
            started_ms = row.started_ms + self._lead
            step = StepRow(row.sequence, row.round, row.kind, started_ms, row.duration_ms, row.data)
            match step.kind:
                case StepKind.REQUEST | StepKind.ASSEMBLED:
                    self._request(step, assembled=step.kind == StepKind.ASSEMBLED)
                case StepKind.RESPONSE:
                    self._response(step)
                case StepKind.TOOL_CALL:
                    self._tool_call(step)
                case StepKind.TOOL_RESULT:
                    self._tool_result(step)
                case StepKind.ACTION:
                    self._action(step)
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
        if step.data.get("last"):
            line.badges.append(Badge("last, no tools", "chg"))
        if step.data.get("repairs"):
            line.badges.append(Badge("repaired", "chg"))
        if not assembled:
            line.running = True
            line.bars = [Bar(step.started_ms, 0.0, "wait")]
            self._call = line

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
        line.bars = _call_bars(step, failed=bool(data.get("error")))
        if (total := _total_tokens(data.get("usage"))) is not None:
            line.tokens, line.estimated = total, False
        if fell_back:
            line.icon = "retry"
            line.badges.append(Badge("fell back", "chg"))
        elif line.failed:
            line.badges.append(Badge("failed", "err"))
        elif data.get("cancelled"):
            line.badges.append(Badge("cancelled"))
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
        line.failed = bool(data.get("is_error"))
        line.bars = [Bar(line.started_ms, line.duration_ms, "terr" if line.failed else "ttool")]
        if data.get("bytes") is not None and not data.get("full"):
            line.tokens, line.estimated = -(-data["bytes"] // 4), True
        if data.get("effect_unknown"):
            line.badges.append(Badge("effect unknown", "err"))
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
    "denied": "denied",
    "needs_approval": "not approved",
    "interrupted": "interrupted",
}


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


def _total_tokens(usage: Mapping[str, Any] | None) -> int | None:
    """Prompt and answer of a call together; `None` unless both are known."""
    if not usage or usage.get("input_tokens") is None or usage.get("output_tokens") is None:
        return None
    return int(usage["input_tokens"]) + int(usage["output_tokens"])
