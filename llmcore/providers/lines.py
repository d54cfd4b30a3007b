"""Cuts a stream of bytes into lines, however the reads fall."""

from __future__ import annotations

from collections.abc import Iterator

MAX_LINE_BYTES = 4 * 1024 * 1024
BOM = b"\xef\xbb\xbf"


class LineTooLong(Exception):
    """A line is longer than `MAX_LINE_BYTES`."""


class LineReader:
    """Splits bytes into lines that end in LF, CRLF or CR.

    A line is decoded only when it is whole, so a character cut between two reads is whole, too.
    """

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []
        self._size = 0
        self._after_cr = False
        self._at_start = True

    def feed(self, chunk: bytes) -> Iterator[str]:
        """The lines that `chunk` completes, without their ends."""
        if self._after_cr and chunk:
            # The LF of a CRLF whose CR ended the read before this one.
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *rest = chunk.split(b"\n")
        self._keep(first)
        for piece in rest:
            yield self._take()
            self._keep(piece)

    def flush(self) -> str:
        """The unfinished last line."""
        return self._take()

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._max_bytes:
            raise LineTooLong
        if piece:
            self._pieces.append(piece)

    def _take(self) -> str:
        line = b"".join(self._pieces)
        self._pieces, self._size = [], 0
        if self._at_start:
            line, self._at_start = line.removeprefix(BOM), False
        return line.decode("utf-8", "replace")
