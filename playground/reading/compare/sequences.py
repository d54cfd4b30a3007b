"""What two sequences have in common and what not, in bounded time, whatever they are."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

# So many insertions and deletions are looked for; two sequences that differ more are exchanged as a whole. The time
# grows with this number times the length.
MOST_EDITS = 400


@dataclass(frozen=True, slots=True)
class Change:
    """`a[a_start:a_end]` became `b[b_start:b_end]`; both are the same where `same`."""

    kind: Literal["same", "changed"]
    a_start: int
    a_end: int
    b_start: int
    b_end: int

    @property
    def same(self) -> bool:
        return self.kind == "same"


def changes_between(a: Sequence[Hashable], b: Sequence[Hashable], *, most_edits: int = MOST_EDITS) -> list[Change]:
    """The way from `a` to `b` with the fewest edits: stretches that are the same and stretches that changed, by turns.

    By E. W. Myers, An O(ND) Difference Algorithm and Its Variations (1986).
    """
    start = _common(zip(a, b, strict=False))
    end = _common(zip(reversed(a[start:]), reversed(b[start:]), strict=False))
    inner_a, inner_b = a[start : len(a) - end], b[start : len(b) - end]
    pairs = _matches(inner_a, inner_b, most_edits) if inner_a and inner_b else []
    same = [(index, index) for index in range(start)]
    same += [(x + start, y + start) for x, y in pairs]
    same += [(len(a) - end + index, len(b) - end + index) for index in range(end)]
    return list(_stretches(same, len(a), len(b)))


def _common(pairs: Iterator[tuple[Hashable, Hashable]]) -> int:
    count = 0
    for one, other in pairs:
        if one != other:
            break
        count += 1
    return count


def _matches(a: Sequence[Hashable], b: Sequence[Hashable], most_edits: int) -> list[tuple[int, int]]:
    """The places of what `a` and `b` have in common, in order; none where they differ by more than `most_edits`."""
    reached = {1: 0}
    history: list[dict[int, int]] = []
    for edits in range(min(len(a) + len(b), most_edits) + 1):
        history.append(dict(reached))
        for diagonal in range(-edits, edits + 1, 2):
            x = _start_on(reached, diagonal, edits)
            y = x - diagonal
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y = x + 1, y + 1
            reached[diagonal] = x
            if x >= len(a) and y >= len(b):
                return _walked_back(history, len(a), len(b))
    return []


def _start_on(reached: dict[int, int], diagonal: int, edits: int) -> int:
    """Where the diagonal is entered: by an insertion from the one above, or by a deletion from the one below."""
    below, above = reached.get(diagonal - 1, -1), reached.get(diagonal + 1, -1)
    if diagonal == -edits or (diagonal != edits and below < above):
        return above
    return below + 1


def _walked_back(history: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for edits in range(len(history) - 1, -1, -1):
        reached, diagonal = history[edits], x - y
        entry = _start_on(reached, diagonal, edits)
        while x > entry:
            x, y = x - 1, y - 1
            found.append((x, y))
        inserted = diagonal == -edits or (
            diagonal != edits and reached.get(diagonal - 1, -1) < reached.get(diagonal + 1, -1)
        )
        x, y = (x, y - 1) if inserted else (x - 1, y)
    return found[::-1]


def _stretches(same: list[tuple[int, int]], a_length: int, b_length: int) -> Iterator[Change]:
    a_end = b_end = 0
    index = 0
    while index < len(same):
        x, y = same[index]
        if (a_end, b_end) != (x, y):
            yield Change("changed", a_end, x, b_end, y)
        first = index
        while index < len(same) and same[index] == (x + index - first, y + index - first):
            index += 1
        a_end, b_end = x + index - first, y + index - first
        yield Change("same", x, a_end, y, b_end)
    if (a_end, b_end) != (a_length, b_length):
        yield Change("changed", a_end, a_length, b_end, b_length)
