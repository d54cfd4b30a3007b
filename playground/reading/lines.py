"""The shapes of a step list: lines with badges and bars, grouped by rounds.

A line is what a reader opens: a model call (its request and response steps), a tool run (its call and result), a
retry, an error. It is addressed by the sequence of its first step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from playground.reading.window_bar import WindowBar

# Sequences of recorded steps begin with 1; this address is the start of the run itself.
START = 0


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
    """One line of the step list. `duration_ms` is `None` where no end was recorded; then it may be `running`. `window`
    is where the window went with a model call. A call that was not `sent` was cancelled while it waited for its permit,
    or fits no budget.
    """

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
    sent: bool = True
    badges: list[Badge] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    rects: list[Rect] = field(default_factory=list)
    window: WindowBar | None = None

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
        return {"tool": "tool", "call": "", "retry": "warn", "approval": "appr", "valid": "ok", "invalid": "warn"}.get(
            self.css, "sys"
        )

    @property
    def from_ms(self) -> float:
        """Since when it is drawn: a call waits for its permit before it starts."""
        return min([self.started_ms, *(bar.start_ms for bar in self.bars)])

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
        return min((line.from_ms for line in self.lines), default=0.0)

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
    def compacted(self) -> bool:
        return any(line.css == "compaction" for line in self.lines)

    @property
    def _call(self) -> Line | None:
        """The last of them: those before it were broken off, or asked of another model."""
        return next((line for line in reversed(self.lines) if line.css == "call"), None)

    @property
    def tokens(self) -> int | None:
        return self._call.tokens if self._call else None

    @property
    def window(self) -> WindowBar | None:
        return self._call.window if self._call else None

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
