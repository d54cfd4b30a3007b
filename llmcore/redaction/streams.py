"""Finds secrets that a streamed answer spells in pieces, a few characters in each of its events."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from llmcore.messages import JSON

_LINE = re.compile(rb"(?:data: ?)?(\{[^\r\n]*)")
# What stands in each event again, such as the name of the model, is no piece of a longer text.
_REPEATED = 8

Spans = list[tuple[int, int]]


@dataclass(slots=True)
class _Text:
    """The pieces that came under one name, with the lines of the body that they stand in."""

    pieces: list[str] = field(default_factory=list)
    lines: list[tuple[int, int]] = field(default_factory=list)


def spelled(body: bytes, find: Callable[[str], Spans]) -> Spans:
    """The spans of `body`, a stream of JSON objects (server-sent events or a line each), whose texts together hold
    what `find` finds in them."""
    spans: Spans = []
    for text in _texts(body):
        starts = _starts(text.pieces)
        place = 0
        for start, stop in find("".join(text.pieces)):
            while starts[place + 1] <= start:
                place += 1
            for index in range(place, len(text.pieces)):
                if starts[index] >= stop:
                    break
                spans += _places(text.pieces[index], body, *text.lines[index])
    return spans


def _texts(body: bytes) -> Iterator[_Text]:
    """The texts that came in more than one piece."""
    texts: defaultdict[str, _Text] = defaultdict(_Text)
    for match in _LINE.finditer(body):
        try:
            value = json.loads(match[1])
        except (ValueError, RecursionError):
            continue
        for name, piece in _leaves(value):
            text = texts[name]
            if len(piece) < _REPEATED or not text.pieces or text.pieces[-1] != piece:
                text.pieces.append(piece)
                text.lines.append(match.span(1))
    yield from (text for text in texts.values() if len(text.pieces) > 1)


def _leaves(value: JSON) -> Iterator[tuple[str, str]]:
    stack: list[tuple[str, JSON]] = [("", value)]
    while stack:
        name, item = stack.pop()
        if isinstance(item, str):
            if item:
                yield name, item
        elif isinstance(item, dict):
            stack.extend((f"{name}/{key}", inner) for key, inner in item.items())
        elif isinstance(item, list):
            stack.extend((f"{name}/{index}", inner) for index, inner in enumerate(item))


def _starts(pieces: list[str]) -> list[int]:
    """Where each piece begins in the whole, and where the whole ends."""
    starts = [0]
    for piece in pieces:
        starts.append(starts[-1] + len(piece))
    return starts


def _places(piece: str, body: bytes, start: int, stop: int) -> Spans:
    """Where `piece` stands in a line; the whole line, where it is written in a way that isn't known here."""
    found: Spans = []
    for ascii_only in (True, False):
        written = json.dumps(piece, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
        at = body.find(written, start, stop)
        while at >= 0:
            found.append((at + 1, at + len(written) - 1))
            at = body.find(written, at + len(written), stop)
    return found or [(start, stop)]
