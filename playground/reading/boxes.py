"""Texts and JSON values of any size in boxes that a page can bear: a bounded view first, the rest on demand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

WHOLE_CHARS = 16_000
HEAD_CHARS = 8_000
TAIL_CHARS = 4_000
CHUNK_CHARS = 50_000
MAX_PARSED_CHARS = 12_000_000
# From here on more of a text comes by a click, not by scrolling: what a page holds of it stays bounded.
CLICK_CHARS = 500_000
# Such a text is also offered as a file.
FILE_CHARS = 4_000
# Lines of prose that have room in a message, and characters of one on a phone.
PROSE_LINES, PHONE_CHARS = 18, 40


@dataclass(frozen=True, slots=True)
class Gap:
    """What is not shown yet: from `offset` on, `lines` lines and `size` bytes."""

    offset: int
    lines: int
    size: int

    @property
    def by_scrolling(self) -> bool:
        return self.offset < CLICK_CHARS

    @property
    def is_chunk(self) -> bool:
        """Whether it is shown at once."""
        return self.size <= CHUNK_CHARS


@dataclass(frozen=True, slots=True)
class TextView:
    """A text, or its head and tail with the gap between them."""

    head: str
    gap: Gap | None = None
    tail: str = ""


@dataclass(frozen=True, kw_only=True)
class Box:
    """A text or a JSON value under a name that its further chunks are asked for by.

    `value` is set where there is JSON to show as a tree, which takes time to find out for a large text: it is when
    somebody asks. `text` is always the whole as text.
    """

    name: str
    title: str
    text: str
    given: Any = None
    may_be_json: bool = False
    note: str = ""

    @cached_property
    def value(self) -> Any:
        return parsed(self.text) if self.may_be_json else self.given

    @property
    def is_json(self) -> bool:
        return self.value is not None

    @property
    def size(self) -> int:
        return byte_size(self.text)

    @property
    def view(self) -> TextView:
        return first_view(self.text)

    @property
    def may_scroll(self) -> bool:
        """Whether it may be taller than its place on the page, on a phone too: then it has to take the focus."""
        lines = self.text[: PROSE_LINES * PHONE_CHARS].split("\n")
        return sum(1 + len(line) // PHONE_CHARS for line in lines) >= PROSE_LINES

    @property
    def for_file(self) -> bool:
        return len(self.text) > FILE_CHARS


class Number(str):
    """A JSON number as it was spelled, so that nothing is rounded on the way to the page."""

    __slots__ = ()


def text_box(name: str, title: str, text: str, note: str = "") -> Box:
    return Box(name=name, title=title, text=shown(text), note=note)


def json_box(name: str, title: str, value: Any, note: str = "") -> Box:
    return Box(name=name, title=title, text=shown(pretty(value)), given=value, note=note)


def any_box(name: str, title: str, text: str, note: str = "") -> Box:
    """A tree where `text` is a JSON object or array, else text."""
    return Box(name=name, title=title, text=shown(text), may_be_json=True, note=note)


def parsed(text: str) -> Any:
    """The object or array that `text` is, or `None`."""
    if len(text) > MAX_PARSED_CHARS or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text, parse_int=Number, parse_float=Number)
    except (ValueError, RecursionError):
        return None


def pretty(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=2)
    except RecursionError:
        # Only indenting is done in Python; the plain encoder bears what the decoder bore.
        return json.dumps(value, ensure_ascii=False)


def shown(text: str) -> str:
    """`text` as far as it can be sent at all: a lone surrogate has no bytes."""
    return text.encode("utf-8", "replace").decode("utf-8")


def byte_size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def first_view(text: str) -> TextView:
    if len(text) <= WHOLE_CHARS:
        return TextView(text)
    head_end = _line_end(text, HEAD_CHARS)
    tail_start = _line_start(text, len(text) - TAIL_CHARS)
    return TextView(text[:head_end], _gap(text, head_end, tail_start), text[tail_start:])


def next_view(text: str, offset: int) -> TextView:
    """The chunk that follows `offset` in the gap of `text`, and the gap that is left."""
    tail_start = _line_start(text, len(text) - TAIL_CHARS) if len(text) > WHOLE_CHARS else len(text)
    start = min(max(offset, 0), tail_start)
    end = tail_start if tail_start - start <= CHUNK_CHARS else _line_end(text, start + CHUNK_CHARS)
    return TextView(text[start:end], _gap(text, end, tail_start) if end < tail_start else None)


def _gap(text: str, start: int, end: int) -> Gap:
    hidden = text[start:end]
    return Gap(start, hidden.count("\n") + (not hidden.endswith("\n")), byte_size(hidden))


def _line_end(text: str, around: int) -> int:
    """The end of the line at `around`, if it isn't far off; else `around` itself."""
    found = text.find("\n", around, around + HEAD_CHARS // 4)
    return around if found < 0 else found + 1


def _line_start(text: str, around: int) -> int:
    found = text.rfind("\n", around - TAIL_CHARS // 4, around)
    return around if found < 0 else found + 1
