"""The part of a step list that a page holds: of a short run all of it, of a long one the rounds around a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from playground.models import Run
from playground.numbers import plural
from playground.reading.lines import START, Line, Round, StepList
from playground.reading.run_rows import brief
from playground.reading.step_rows import age_ms, is_live
from playground.reading.steps import axis_of, draw, roomy_axis

# Above either, a page holds a part of the list.
LONG_ROUNDS = 60
LONG_LINES = 240
# That part; rounds stay whole.
WINDOW_LINES = 64

Find = Literal["next", "previous", "error", "first", "last"]
Kind = Literal["", "err", "tool"]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepFilter:
    """Which lines are listed: the failed ones, tools, those with some text in their name; all of them by default."""

    kind: Kind = ""
    words: str = ""

    def matches(self, of: Round, line: Line) -> bool:
        if (self.kind == "err" and not line.failed) or (self.kind == "tool" and not line.is_tool):
            return False
        name = f"{of.label} {line.name}{''.join(badge.word for badge in line.badges)}"
        return self.words.strip().lower() in name.lower()


ALL_STEPS = StepFilter()


@dataclass(frozen=True, slots=True)
class Range:
    """Rounds next to each other that a page doesn't hold, as one row."""

    rounds: Sequence[Round]

    @property
    def label(self) -> str:
        numbers = [of.number for of in self.rounds if of.number] or [0]
        if numbers[0] == numbers[-1]:
            return self.rounds[-1].label
        return f"Rounds {numbers[0]:,}–{numbers[-1]:,}"

    @property
    def detail(self) -> str:
        counted = sum(bool(of.number) for of in self.rounds)
        failed = sum(line.failed for of in self.rounds for line in of.shown)
        facts = [plural(counted, "round"), brief(self.rounds[-1].end_ms - self.rounds[0].started_ms)]
        return ", ".join([*facts, *([f"{failed:,} failed"] if failed else [])])


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """Rounds as a page shows them, on an axis of time from `origin_ms` on, with what lies `before` and `after`.

    Of a `long` list, `total` is how many rounds are listed, and `at` the line that was looked for.
    """

    rounds: Sequence[Round]
    axis_ms: float
    long: bool = False
    origin_ms: float = 0.0
    before: Range | None = None
    after: Range | None = None
    total: int = 0
    at: int = START


def is_long(steps: StepList) -> bool:
    return len(steps.rounds) > LONG_ROUNDS + 1 or sum(len(of.lines) for of in steps.rounds) > LONG_LINES


def read_window(
    run: Run, steps: StepList, now: datetime, *, at: int, find: Find | None = None, filter: StepFilter = ALL_STEPS
) -> Window:
    """The window around the line `at`, or around what is found from there among the listed lines.

    A list that isn't long is shown whole, whatever the filter: its page filters by itself.
    """
    if not is_long(steps):
        axis = axis_of(run, steps.rounds, now)
        draw(steps.rounds, axis)
        return Window(rounds=steps.rounds, axis_ms=axis)
    listed = listed_rounds(steps, filter)
    found = found_line([line for of in listed for line in of.shown], at, find)
    first, last = bounds(listed, found)
    shown, before, after = listed[first:last], listed[:first], listed[last:]
    origin = shown[0].started_ms if shown else 0.0
    end = max((of.end_ms for of in shown), default=0.0)
    growing = is_live(run) and not after
    axis = roomy_axis(max(end, age_ms(run, now)) - origin) if growing else max(end - origin, 1.0)
    draw(shown, axis, origin)
    return Window(
        rounds=shown,
        axis_ms=axis,
        long=True,
        origin_ms=origin,
        before=Range(before) if before else None,
        after=Range(after) if after else None,
        total=len(listed),
        at=found,
    )


def listed_rounds(steps: StepList, filter: StepFilter) -> list[Round]:
    """The rounds with a line that matches, at their places."""
    if filter == ALL_STEPS:
        listed = list(steps.rounds)
    else:
        matching = [(of, [line for line in of.lines if filter.matches(of, line)]) for of in steps.rounds]
        listed = [replace(of, matching=lines) for of, lines in matching if lines]
    for position, of in enumerate(listed, 1):
        of.position = position
    return listed


def found_line(lines: Sequence[Line], at: int, find: Find | None) -> int:
    """The line that is looked for, by its sequence; `at` where there is none. After the last error comes the first."""
    after = [line.sequence for line in lines if line.sequence > at]
    match find:
        case "next":
            return after[0] if after else at
        case "previous":
            return max((line.sequence for line in lines if line.sequence < at), default=at)
        case "error":
            errors = [line.sequence for line in lines if line.failed]
            return next((error for error in errors if error > at), errors[0] if errors else at)
        case "first" | "last":
            return lines[0 if find == "first" else -1].sequence if lines else at
    return at


def bounds(listed: Sequence[Round], at: int) -> tuple[int, int]:
    """Where the window around the line `at` begins and ends: as much on both sides, as far as there is any."""
    here = sum(of.shown[0].sequence <= at for of in listed) - 1
    first, last = max(here, 0), min(max(here, 0) + 1, len(listed))
    size = sum(len(of.shown) for of in listed[first:last])
    while size < WINDOW_LINES and (first > 0 or last < len(listed)):
        if first > 0:
            first -= 1
            size += len(listed[first].shown)
        if last < len(listed):
            size += len(listed[last].shown)
            last += 1
    return first, last


def line_of_round(steps: StepList, number: int) -> int:
    """The model call of a round, or its first line; START where there is no such round."""
    lines = next((of.lines for of in steps.rounds if of.number >= number), ())
    call = next((line for line in lines if line.css == "call"), None)
    return call.sequence if call else lines[0].sequence if lines else START
