"""What a wire format is to the scripted model: a way to understand a request and to say an answer."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from llmcore.messages import JSON

CREATED = 1_764_000_000
SSE = "text/event-stream; charset=utf-8"


@dataclass(frozen=True, kw_only=True, slots=True)
class SpokenCall:
    """A tool call as it is said: `arguments` is a text, however broken; an `id` may be missing."""

    id: str | None
    name: str
    arguments: str

    @property
    def value(self) -> JSON:
        """The arguments for wires that send them as values; a text that is no JSON stays one."""
        try:
            return json.loads(self.arguments) if self.arguments else {}
        except ValueError:
            return self.arguments


@dataclass(frozen=True, kw_only=True, slots=True)
class Utterance:
    """What a model says, before it is put into a wire format.

    `finish` is one of stop, length, tool_calls, content_filter, or a word that goes out as it is. `usage` has the
    fields of Chat Completions; `{}` reports none. All made-up ids come from `seed`. `wants_usage`: the request asked
    for usage in its stream.
    """

    model: str
    seed: str
    text: str = ""
    thinking: str = ""
    calls: tuple[SpokenCall, ...] = ()
    finish: str = "stop"
    usage: Mapping[str, JSON]
    chunk_chars: int = 12
    wants_usage: bool = True

    def pieces(self, text: str) -> Iterator[str]:
        size = max(self.chunk_chars, 1)
        for start in range(0, len(text), size):
            yield text[start : start + size]

    def count(self, *path: str) -> int | None:
        """A count of `usage`, under one of its names or in a group of details."""
        value: JSON = self.usage
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value if isinstance(value, int) else None


class Tongue(ABC):
    """A wire format as the scripted model speaks it."""

    stream_type: str = SSE

    @abstractmethod
    def hears(self, path: str) -> bool:
        """Whether a request posted to `path` is in this format."""

    @abstractmethod
    def understand(self, path: str, body: dict[str, JSON]) -> dict[str, JSON]:
        """The request in the shape of Chat Completions. Raises `Refused` for what the service would refuse."""

    @abstractmethod
    def whole(self, said: Utterance) -> JSON:
        """The unstreamed answer."""

    @abstractmethod
    def pieces(self, said: Utterance) -> Iterator[bytes]:
        """The streamed answer up to the last word, one network write each."""

    @abstractmethod
    def ending(self, said: Utterance) -> Iterator[bytes]:
        """What follows the last word."""

    @abstractmethod
    def error(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> JSON:
        """The body of an error."""

    def error_piece(self, error: JSON) -> bytes:
        """An error in the middle of a stream."""
        return event(error)

    def models(self, names: list[str]) -> JSON:
        """The list of models."""
        data = [{"id": name, "object": "model", "created": CREATED, "owned_by": "scripted"} for name in names]
        return {"object": "list", "data": data}


def encoded(value: JSON) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def event(value: JSON, kind: str = "") -> bytes:
    """A server-sent event, with its type where the format names it."""
    return (f"event: {kind}\n".encode() if kind else b"") + b"data: " + encoded(value) + b"\n\n"


def signature_of(text: str) -> str:
    """What the scripted model signs its thinking with."""
    return hashlib.sha256(f"scripted {text}".encode("utf-8", "surrogatepass")).hexdigest()
