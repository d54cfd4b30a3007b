"""Keeps the marks of cache boundaries in encoded units to as many as a provider takes."""

from __future__ import annotations

from collections.abc import Sequence

CACHE_MARK = {"cache_control": {"type": "ephemeral"}}
# A mark as it stands at the end of a block. In a text its quotes would be escaped, so it can't be anything else there.
ENCODED_MARK = b',"cache_control":{"type":"ephemeral"}'


def at_most(most: int, units: Sequence[bytes]) -> Sequence[bytes]:
    """`units` with the least valuable marks taken out where they hold more than `most`.

    A mark is worth what lies between it and the one before: without it, that much is read anew where a request
    goes another way behind it.
    """
    pieces = [unit.split(ENCODED_MARK) for unit in units]
    spans: list[tuple[int, int, int]] = []
    span = 0
    for number, unit in enumerate(pieces):
        for index, piece in enumerate(unit[:-1]):
            spans.append((span + len(piece), number, index))
            span = 0
        span += len(unit[-1])
    if len(spans) <= most:
        return units
    dropped = {(number, index) for _, number, index in sorted(spans)[: len(spans) - most]}
    return [
        unit if len(split) == 1 else _joined(split, number, dropped)
        for number, (unit, split) in enumerate(zip(units, pieces, strict=True))
    ]


def _joined(pieces: Sequence[bytes], number: int, dropped: set[tuple[int, int]]) -> bytes:
    marks = (b"" if (number, index) in dropped else ENCODED_MARK for index in range(len(pieces)))
    *ends, last = pieces
    return b"".join(piece + mark for piece, mark in zip(ends, marks, strict=False)) + last
