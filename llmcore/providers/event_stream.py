"""Reads server-sent events, as the providers of language models send them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from llmcore.providers.lines import LineReader

DONE = "[DONE]"
# Enough of a body that is no event stream to tell what it is instead.
MAX_STRAY_CHARS = 1_000_000


class ServerEvent(NamedTuple):
    """One event: its type ("" if it has none) and its data. `is_error`: the data came in a field named `error`."""

    type: str
    data: str
    is_error: bool = False


class EventReader:
    """Assembles events from bytes.

    Comments, unknown fields and events without data are no events. Old llama.cpp sends errors in a field `error:`.
    `stray` collects lines that no event stream has: then the body is something else, such as JSON or a page.
    """

    def __init__(self) -> None:
        self._lines = LineReader()
        self._type = ""
        self._data: list[str] = []
        self._error: list[str] = []
        self._stray: list[str] = []
        self._stray_chars = 0

    @property
    def stray(self) -> str:
        return "\n".join(self._stray)

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        for line in self._lines.feed(chunk):
            if line:
                self._field(line)
            elif event := self._dispatch():
                yield event

    def flush(self) -> ServerEvent | None:
        """The last event, where the stream ended without a blank line."""
        if line := self._lines.flush():
            self._field(line)
        return self._dispatch()

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                # Some gateways send their keep-alive comment as data.
                if not value.startswith(":"):
                    self._data.append(value)
            case "event":
                self._type = value
            case "error":
                self._error.append(value)
            case "" | "id" | "retry":
                pass
            case _ if self._stray_chars < MAX_STRAY_CHARS:
                self._stray.append(line)
                self._stray_chars += len(line)

    def _dispatch(self) -> ServerEvent | None:
        if not self._data and not self._error:
            self._type = ""
            return None
        kind, data, error = self._type, "\n".join(self._data), "\n".join(self._error)
        self._type, self._data, self._error = "", [], []
        if error:
            return ServerEvent(kind, error, True)
        return ServerEvent(kind, data) if data.strip() else None
