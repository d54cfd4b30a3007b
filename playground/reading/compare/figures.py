"""What the runs of a comparison took: time, rounds, tokens, money; between two of them, the change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from playground.models import Run
from playground.numbers import SPACE, duration, money, tokens
from playground.reading.compare.sides import Side
from playground.reading.summary import time_shares

# Less of a difference than this share says nothing about which run is better.
NOTABLE = 0.02

Good = Literal["less", "more"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A measure with its value for each run; `None`, shown blank, where it is unknown."""

    label: str
    values: tuple[float | None, ...]
    shown: tuple[str, ...]
    change: str = ""
    css: str = "same"

    @property
    def bars(self) -> list[list[dict[str, object]]]:
        """For each run a bar on the scale of the largest; none where nothing can be compared."""
        known = [value for value in self.values if value is not None]
        top = max(known, default=0)
        if len(known) < 2 or top <= 0:
            return []
        names = ("a", "b")
        return [
            [{"css": name, "value": value or 0}, {"css": "none", "value": top - (value or 0)}]
            for name, value in zip(names, self.values, strict=False)
        ]


@dataclass(frozen=True, slots=True)
class _Measure:
    label: str
    value: Callable[[Run], float | None]
    show: Callable[[Run], str]
    good: Good = "less"
    # How a change is told: in percent of A, in percentage points, or as a count.
    change: Literal["percent", "points", "count"] = "percent"
    optional: bool = False


def _wall(run: Run) -> float | None:
    return run.wall_ms


def _cost(run: Run) -> float | None:
    return None if run.cost is None else float(run.cost)


def _without_approval(run: Run) -> float | None:
    return None if run.wall_ms is None else run.wall_ms - (run.approval_ms or 0.0)


def _at_work(run: Run) -> float | None:
    """Without what it waited for: a worker, permits, people."""
    waited = (run.queue_ms, run.permit_ms, run.approval_ms)
    return None if run.wall_ms is None else run.wall_ms - sum(ms or 0.0 for ms in waited)


def _cached(run: Run) -> float | None:
    if run.cache_read_input_tokens is None or not run.input_tokens:
        return None
    return 100 * run.cache_read_input_tokens / run.input_tokens


def _calls(run: Run) -> str:
    told = ((run.tool_errors, "failed"), (run.tool_denials, "denied"))
    return ", ".join([tokens(run.tool_calls), *(f"{tokens(count)} {word}" for count, word in told if count)])


def _part(run: Run, css: str, ms: float | None) -> str:
    """A part of the wall time as the page of the run spells it, where the parts are rounded together."""
    return next((share.shown for share in time_shares(run) if share.css == css), duration(ms))


def _percent(value: float | None) -> str:
    return "" if value is None else f"{round(value)}{SPACE}%"


MEASURES = (
    _Measure("Wall time", _wall, lambda run: duration(run.wall_ms)),
    _Measure("without approval", _without_approval, lambda run: duration(_without_approval(run)), optional=True),
    _Measure("Model time", lambda run: run.model_ms, lambda run: _part(run, "model", run.model_ms)),
    _Measure("Tool time", lambda run: run.tool_ms, lambda run: _part(run, "ttool", run.tool_ms)),
    _Measure("Permit wait", lambda run: run.permit_ms, lambda run: _part(run, "permit", run.permit_ms), optional=True),
    _Measure("Rounds", lambda run: run.rounds, lambda run: tokens(run.rounds), change="count"),
    _Measure("Tool calls", lambda run: run.tool_calls, _calls, change="count"),
    _Measure("Prompt tokens", lambda run: run.input_tokens, lambda run: tokens(run.input_tokens)),
    _Measure("Served from cache", _cached, lambda run: _percent(_cached(run)), good="more", change="points"),
    _Measure("Completion", lambda run: run.output_tokens, lambda run: tokens(run.output_tokens)),
    _Measure(
        "of it reasoning",
        lambda run: run.reasoning_output_tokens,
        lambda run: tokens(run.reasoning_output_tokens),
        optional=True,
    ),
    _Measure("Cost", _cost, lambda run: money(run.cost)),
)


def read_figures(sides: Sequence[Side]) -> list[Figure]:
    runs = [side.run for side in sides]
    return [figure_of(measure, runs) for measure in MEASURES if not measure.optional or _told(measure, runs)]


def figure_of(measure: _Measure, runs: Sequence[Run]) -> Figure:
    values = tuple(measure.value(run) for run in runs)
    change, css = _change(measure, values) if len(values) == 2 else ("", "same")
    return Figure(
        label=measure.label, values=values, shown=tuple(measure.show(run) for run in runs), change=change, css=css
    )


def verdict(sides: Sequence[Side]) -> str:
    """Which of two runs that completed was faster and cheaper, in a sentence; empty where that can't be said. What a
    run waited for makes it no slower: nothing of what was compared has to do with it."""
    a, b = (side.run for side in sides)
    if not (a.reason == b.reason == "completed"):
        return ""
    words: dict[str, list[str]] = {}
    for word, value in (("faster", _at_work), ("cheaper", _cost)):
        one, other = value(a), value(b)
        if one is None or other is None or abs(one - other) <= NOTABLE * max(one, other):
            continue
        words.setdefault("B" if other < one else "A", []).append(word)
    return ", ".join(f"{letter} is {' and '.join(found)}" for letter, found in sorted(words.items(), reverse=True))


def _told(measure: _Measure, runs: Sequence[Run]) -> bool:
    if measure.value is _without_approval:
        return any(run.approval_ms for run in runs)
    return any(measure.value(run) for run in runs)


def _change(measure: _Measure, values: tuple[float | None, ...]) -> tuple[str, str]:
    before, after = values
    if before is None or after is None:
        return "", "same"
    difference = after - before
    if not difference:
        return "=", "same"
    match measure.change:
        case "count":
            amount = f"{abs(difference):,.0f}"
        case "points":
            amount = f"{abs(round(after) - round(before))}{SPACE}pt"
        case "percent":
            amount = f"{abs(round(100 * difference / before)):,}{SPACE}%" if before else ""
    if amount.startswith("0"):
        return "≈", "same"
    better = (difference < 0) == (measure.good == "less")
    arrow, sign = ("▼", "−") if difference < 0 else ("▲", "+")
    if not amount:
        # There was nothing to be better than, as in a dry run.
        return f"{arrow} from 0", "same"
    return f"{arrow} {sign}{amount}", "good" if better else "bad"
