"""The strip above a long step list: how long and how large its rounds were, and where something failed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from playground.numbers import plural
from playground.reading.lines import Round, StepList
from playground.reading.run_rows import GIANT

# A strip is about 400 pixels wide; more columns than this could not be told apart.
MAX_COLUMNS = 200
HEIGHT = 36
LEAST = 1.5
BAR = 0.8


@dataclass(frozen=True, kw_only=True, slots=True)
class Bars:
    """One figure of the rounds as two paths in a box of `columns` by `HEIGHT`: of all columns, and of failed ones."""

    name: str
    ok: str
    failed: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Overview:
    """All rounds of a run from the first to the `last`, `each` of them to a column. `marks` are under the failed ones,
    `compacted` above those before which old turns gave way to a summary."""

    last: int
    each: int
    columns: int
    bars: Sequence[Bars]
    marks: str
    failed: int
    compacted: str
    compactions: int

    @property
    def label(self) -> str:
        many = f", {self.each} to a bar" if self.each > 1 else ""
        return plural(self.last, "round") + many

    @property
    def middle(self) -> int:
        return (self.last + 1) // 2


def read_overview(steps: StepList) -> Overview | None:
    """`None` before the first round."""
    rounds = [of for of in steps.rounds if of.number]
    if not rounds:
        return None
    last = rounds[-1].number
    each = -(-last // MAX_COLUMNS)
    columns: list[list[Round]] = [[] for _ in range(-(-last // each))]
    for of in rounds:
        columns[(of.number - 1) // each].append(of)
    failed = [any(of.failed for of in column) for column in columns]
    return Overview(
        last=last,
        each=each,
        columns=len(columns),
        bars=[
            read_bars("time", [max((of.duration_ms for of in column), default=0.0) for column in columns], failed),
            read_bars("tokens", [max((of.tokens or 0 for of in column), default=0) for column in columns], failed),
        ],
        # Under the bars, so that a failure is seen that took no time.
        marks="".join(bar(index, HEIGHT + 1, 3) for index, is_failed in enumerate(failed) if is_failed),
        failed=steps.failed,
        compacted="".join(
            bar(index, 0, 3) for index, column in enumerate(columns) if any(of.compacted for of in column)
        ),
        compactions=sum(of.compacted for of in rounds),
    )


def read_bars(name: str, values: Sequence[float], failed: Sequence[bool]) -> Bars:
    """Giants end at the top: they must not flatten all other bars."""
    known = [value for value in values if value > 0]
    top = min(max(known), GIANT * statistics.median(known)) if known else 1.0
    heights = [max(HEIGHT * min(value / top, 1), LEAST) if value > 0 else 0 for value in values]
    paths = {False: "", True: ""}
    for index, (height, is_failed) in enumerate(zip(heights, failed, strict=True)):
        if height:
            paths[is_failed] += bar(index, HEIGHT - height, height)
    return Bars(name=name, ok=paths[False], failed=paths[True])


def bar(column: int, y: float, height: float) -> str:
    return f"M{column} {y:.4g}h{BAR}v{height:.4g}h-{BAR}z"
