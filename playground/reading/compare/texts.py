"""The difference between two texts: by words where it is read as prose, by lines where it is a source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Literal

from playground.reading.compare.sequences import MOST_EDITS, Change, changes_between

# Longer texts are compared up to here; the page says what is left.
MAX_WORDS = 6_000
MAX_CHARS = 60_000
MAX_LINES = 20_000
# What is the same around a changed line, and how many changed lines of a text a page shows.
CONTEXT = 1
SHOWN_LINES = 200
SHOWN_CHARS = 40_000
LINE_CHARS = 4_000
# A changed line is marked by words where both of its versions are no longer than this.
MARKED_CHARS = 1_200
# And where it takes so many edits at most: there may be hundreds of such lines.
MARKED_EDITS = 60

_WORD = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of one of two texts; `only` says that the other one doesn't have it."""

    text: str
    only: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class WordDiff:
    """Two texts, each in its pieces. `same` is the share of their words that both have, in percent; `cut` that only
    the beginning was compared."""

    a: tuple[Piece, ...]
    b: tuple[Piece, ...]
    same: int
    cut: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffLine:
    """A line of a difference: only in A, only in B, in both, or a fold that says what is left out."""

    kind: Literal["del", "add", "same", "fold"]
    pieces: tuple[Piece, ...]

    @property
    def mark(self) -> str:
        return {"del": "−", "add": "+"}.get(self.kind, " ")


def word_diff(a: str, b: str, *, most_edits: int = MOST_EDITS) -> WordDiff:
    words_a, words_b = _words(a), _words(b)
    cut = len(a) > MAX_CHARS or len(b) > MAX_CHARS or max(len(words_a), len(words_b)) > MAX_WORDS
    words_a, words_b = words_a[:MAX_WORDS], words_b[:MAX_WORDS]
    changes = _readable(changes_between(words_a, words_b, most_edits=most_edits), words_a)
    kept = sum(_counted(words_a[change.a_start : change.a_end]) for change in changes if change.same)
    whole = max(_counted(words_a), _counted(words_b))
    return WordDiff(
        a=tuple(_pieces((words_a[c.a_start : c.a_end], c.same) for c in changes)),
        b=tuple(_pieces((words_b[c.b_start : c.b_end], c.same) for c in changes)),
        same=round(100 * kept / whole) if whole else 100,
        cut=cut,
    )


def line_diff(a: str, b: str) -> list[DiffLine]:
    """The changed lines with what stands around them; a fold in the place of all others."""
    lines_a, lines_b = a.split("\n", MAX_LINES)[:MAX_LINES], b.split("\n", MAX_LINES)[:MAX_LINES]
    changes = changes_between(lines_a, lines_b)
    shown: list[DiffLine] = []
    for place, change in enumerate(changes):
        if change.same:
            last = place == len(changes) - 1
            shown += _around(lines_a[change.a_start : change.a_end], first=place == 0, last=last)
        else:
            shown += _changed(lines_a[change.a_start : change.a_end], lines_b[change.b_start : change.b_end])
    return bounded(shown)


def side_by_side(lines: Iterable[DiffLine]) -> list[tuple[DiffLine | None, DiffLine | None]]:
    """The lines in rows of A and B: what both have is in one row, and so are lines that became others; `None` where one
    of them has no line."""
    rows: list[tuple[DiffLine | None, DiffLine | None]] = []
    for changed, group in groupby(lines, key=lambda line: line.kind in ("del", "add")):
        found = list(group)
        if changed:
            gone, new = ([line for line in found if line.kind == kind] for kind in ("del", "add"))
            rows += zip_longest(gone, new)
        else:
            rows += [(line, line) for line in found]
    return rows


def bounded(lines: Sequence[DiffLine]) -> list[DiffLine]:
    """As many of the lines as a page shows, and how many are left."""
    chars = 0
    for place, line in enumerate(lines):
        chars += sum(len(piece.text) for piece in line.pieces)
        if place >= SHOWN_LINES or chars > SHOWN_CHARS:
            left = lines[place:]
            removed, added = (sum(line.kind == kind for line in left) for kind in ("del", "add"))
            counted = f"… {len(left):,} more lines: {removed:,} only in A, {added:,} only in B"
            return [*lines[:place], _fold(counted)]
    return list(lines)


def _words(text: str) -> list[str]:
    return _WORD.findall(text[:MAX_CHARS])


def _counted(words: Iterable[str]) -> int:
    return sum(not word.isspace() for word in words)


def _readable(changes: Sequence[Change], words: Sequence[str]) -> list[Change]:
    """Without the short stretches between two changes that are the same by chance: a blank, a comma, one word."""
    kept: list[Change] = []
    for place, change in enumerate(changes):
        inner = 0 < place < len(changes) - 1
        if change.same and inner and _counted(words[change.a_start : change.a_end]) < 2:
            change = Change("changed", change.a_start, change.a_end, change.b_start, change.b_end)
        if kept and not change.same and not kept[-1].same:
            before = kept.pop()
            change = Change("changed", before.a_start, change.a_end, before.b_start, change.b_end)
        kept.append(change)
    return kept


def _pieces(stretches: Iterable[tuple[Sequence[str], bool]]) -> Iterator[Piece]:
    """Blanks at the ends of a stretch are not marked."""
    for words, same in stretches:
        text = "".join(words)
        if same or not text.strip():
            yield Piece(text)
            continue
        inner = text.strip()
        before, _, after = text.partition(inner)
        yield from (piece for piece in (Piece(before), Piece(inner, only=True), Piece(after)) if piece.text)


def _around(lines: Sequence[str], *, first: bool, last: bool) -> Iterator[DiffLine]:
    """Of lines that are the same: those next to a change, and how many there are between."""
    head, tail = (0 if first else CONTEXT), (0 if last else CONTEXT)
    hidden = len(lines) - head - tail
    if hidden <= 1:
        yield from (_line("same", line) for line in lines)
        return
    yield from (_line("same", line) for line in lines[:head])
    yield _fold(f"… {hidden:,} lines the same")
    yield from (_line("same", line) for line in lines[len(lines) - tail :])


def _changed(a: Sequence[str], b: Sequence[str]) -> list[DiffLine]:
    """Lines that became others; where they are as many, each is marked against its counterpart."""
    if len(a) == len(b) <= SHOWN_LINES and all(len(line) <= MARKED_CHARS for line in (*a, *b)):
        pairs = [word_diff(one, other, most_edits=MARKED_EDITS) for one, other in zip(a, b, strict=True)]
        # Marking nearly everything says less than the color of the line.
        gone = [_marked("del", line, diff.a, diff.same) for line, diff in zip(a, pairs, strict=True)]
        return gone + [_marked("add", line, diff.b, diff.same) for line, diff in zip(b, pairs, strict=True)]
    return [*(_line("del", line) for line in a), *(_line("add", line) for line in b)]


def _marked(kind: Literal["del", "add"], line: str, pieces: tuple[Piece, ...], same: int) -> DiffLine:
    return DiffLine(kind=kind, pieces=pieces) if same >= 40 else _line(kind, line)


def _line(kind: Literal["del", "add", "same"], text: str) -> DiffLine:
    return DiffLine(kind=kind, pieces=(Piece(text if len(text) <= LINE_CHARS else f"{text[:LINE_CHARS]}…"),))


def _fold(text: str) -> DiffLine:
    return DiffLine(kind="fold", pieces=(Piece(text),))
