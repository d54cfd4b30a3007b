"""What a panel is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from playground.reading.boxes import Box
from playground.reading.step_record import StepRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """Which piece of a panel is asked for: one message, a list from `offset` on, a `part` or a `box` by its name.
    Counted from 0."""

    message: int | None = None
    kept: bool = False
    offset: int = 0
    part: str = ""
    box: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """The content of a tab: the `template`, its `context`, and the boxes whose further chunks may be asked for."""

    template: str
    context: dict[str, Any] = field(default_factory=dict)
    boxes: tuple[Box, ...] = ()

    def box(self, name: str) -> Box | None:
        return next((box for box in self.boxes if box.name == name), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tab:
    """A tab of a step's detail. `note` stands small beside the title."""

    slug: str
    title: str
    read: Callable[[StepRecord, Query], Panel]
    note: str = ""


def boxes_of(boxes: Iterable[Box | None]) -> tuple[Box, ...]:
    return tuple(box for box in boxes if box is not None)
