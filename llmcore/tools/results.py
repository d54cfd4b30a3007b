"""What a tool call gave: the text for the model, bounded and clean, and all else that only the trace keeps."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any, Self
from uuid import UUID

from llmcore.messages import JSON
from llmcore.providers.json_text import mend_surrogates
from llmcore.tools.base import Artifact, ToolOutput


class FailureKind(StrEnum):
    """Why a call has an error as its result."""

    PARSE = "parse"
    SCHEMA = "schema"
    UNKNOWN_TOOL = "unknown_tool"
    NOT_OFFERED = "not_offered"
    CUT_OFF = "cut_off"
    TOOL_ERROR = "tool_error"
    EXCEPTION = "exception"
    TIMEOUT = "timeout"
    NEEDS_APPROVAL = "needs_approval"
    DENIED = "denied"
    HALTED = "halted"
    CANCELLED = "cancelled"
    ROUND_LIMIT = "round_limit"
    INTERRUPTED = "interrupted"
    NOT_RECORDED = "not_recorded"


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where a result comes from that no execution gave: the step `step` of the run `run`, made with other arguments
    where it `differs`; without a run, a person typed it in."""

    run: int | None = None
    step: int | None = None
    differs: bool = False

    def to_json(self) -> dict[str, JSON]:
        return {"run": self.run, "step": self.step, "differs": self.differs}


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolResult:
    """What came back from a call. `text` goes to the model, everything else to the trace only.

    `size` is that of the whole result in UTF-8 bytes, `full` the whole text where the model gets less.
    `effect_unknown` says that the tool may or may not have done its work. `origin` is set where it didn't run.
    """

    text: str
    failure: FailureKind | None = None
    size: int = 0
    full: str | None = None
    artifacts: tuple[Artifact, ...] = ()
    traceback: str | None = None
    effect_unknown: bool = False
    origin: Origin | None = None

    @property
    def is_error(self) -> bool:
        return self.failure is not None

    @classmethod
    def failed(cls, failure: FailureKind, text: str, *, effect_unknown: bool = False) -> Self:
        return cls(text=text, failure=failure, effect_unknown=effect_unknown)

    def bounded(self, *, max_bytes: int, max_traced_bytes: int, note: str = "") -> ToolResult:
        """With `note` added, at most `max_bytes` for the model; what the trace keeps is at most `max_traced_bytes`."""
        data = self.text.encode("utf-8")
        whole = data if self.full is None else self.full.encode("utf-8")
        added = f"\n\n{note}" if note else ""
        room = max_bytes - len(added.encode("utf-8"))
        shown = cut(data, room) + added
        full = None if self.full is None and len(data) <= room else cut(whole, max_traced_bytes)
        artifacts = _within(self.artifacts, max_traced_bytes)
        return replace(self, text=shown, size=len(whole), full=full, artifacts=artifacts)


def _within(artifacts: tuple[Artifact, ...], max_bytes: int) -> tuple[Artifact, ...]:
    """As many of the first ones as have at most `max_bytes` of JSON, and in place of the others one that says so."""
    room = max_bytes
    for count, artifact in enumerate(artifacts):
        room -= len(json_text([artifact.type, artifact.payload]).encode("utf-8", "replace"))
        if room < 0:
            left_out: dict[str, JSON] = {"artifacts": len(artifacts) - count, "kept_bytes_at_most": max_bytes}
            return (*artifacts[:count], Artifact(type="left_out", payload=left_out))
    return artifacts


def result_of(value: Any) -> ToolResult:
    """The result of a tool that returned `value`. TypeError where that has no JSON."""
    if isinstance(value, ToolResult):
        return value
    if isinstance(value, ToolOutput):
        artifacts = tuple(replace(item, payload=json.loads(json_text(item.payload))) for item in value.artifacts)
        return ToolResult(text=text_of(value.content), artifacts=artifacts)
    return ToolResult(text=text_of(value))


def text_of(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return clean(value if isinstance(value, str) else json_text(value))


def clean(text: str) -> str:
    """Without NUL and lone surrogates, which neither providers nor databases take."""
    return mend_surrogates(text.replace("\0", ""))


def cut(data: bytes, max_bytes: int) -> str:
    """UTF-8 `data` as text of at most `max_bytes`, cut between characters with a marker that says so."""
    if len(data) <= max_bytes:
        return data.decode("utf-8")
    marker = (
        f"\n[The result was truncated here: it has {len(data)} bytes, at most {max_bytes} are shown. To get the rest, "
        "call the tool again with narrower arguments, such as a filter, a range or an offset.]"
    ).encode()
    room = max_bytes - len(marker)
    kept = data[:room] + marker if room > 0 else data[: max(max_bytes, 0)]
    return kept.decode("utf-8", "ignore")


def json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain, allow_nan=False)
    except (TypeError, ValueError):
        # Perhaps for its keys: JSON knows text only, tools count by dates and ids. Or for a number that JSON lacks.
        return json.dumps(_as_json(value), ensure_ascii=False)


def _plain(value: Any) -> JSON:
    """JSON for what `json` itself doesn't know."""
    match value:
        case Decimal() | UUID() | timedelta():
            return str(value)
        case date() | time():
            return value.isoformat()
        case Enum():
            return value.value
        case bytes() | bytearray() | memoryview():
            raise TypeError("a tool can't return bytes: decode them, or emit an artifact")
        case Mapping():
            return dict(value)
        case set() | frozenset():
            return sorted(value, key=str)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if hasattr(value, "encode"):
        # A text in all but its type, such as a lazy translation.
        return str(value)
    if isinstance(value, Iterable) and isinstance(value, Sized):
        return list(value)
    raise TypeError(f"a tool can't return {type(value).__name__}: it has no JSON")


def _as_json(value: Any) -> JSON:
    """The value with texts for keys, and with null for what is no finite number, as browsers write it."""
    match value:
        case None | str() | int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {key if isinstance(key, str) else _key(key): _as_json(item) for key, item in value.items()}
        case list() | tuple():
            return [_as_json(item) for item in value]
    return _as_json(_plain(value))


def _key(key: Any) -> str:
    plain = _plain(key) if isinstance(key, Enum | date | time) else key
    return plain if isinstance(plain, str) else str(plain)
