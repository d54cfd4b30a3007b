"""The step list of a run: its recorded steps as lines with bars, grouped by rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from llmcore.runs.outcome import RunStatus
from playground.models import Run
from playground.reading.line_reader import LineReader
from playground.reading.lines import START, Bar, Line, Rect, Round, StepList
from playground.reading.plan import read_estimator
from playground.reading.step_rows import StepRow, age_ms, is_live, lead_ms

# A bar thinner than this part of the axis would not be seen.
MIN_WIDTH = 0.8
ROUND_AXES = [1000 * s for s in (5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400)]


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
    return LineReader(lead_ms(run), live=newest and is_live(run), estimator=read_estimator(run)).read(rows)


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
