"""What goes to a model and what comes back, independent of any wire format."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, Self

from llmcore.errors import ProviderError
from llmcore.usage import Usage

JSON = Any
Role = Literal["system", "user", "assistant", "tool"]


# Made once: `json.dumps` makes one for each call.
_canonical = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def canonical_json(value: JSON) -> str:
    """The one spelling of a JSON value: sorted keys, no spaces, no escapes but the needed ones."""
    return _canonical.encode(value)


def digest_of(value: JSON) -> str:
    """SHA-256 (hex) over the canonical JSON of `value`. Lone surrogates, which models produce, are hashed as such."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


class FinishReason(StrEnum):
    """Why the model stopped, the same for all providers."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    PAUSE = "pause"
    ERROR = "error"


class CallProblem(StrEnum):
    """Why a requested call must not be executed."""

    UNDECODABLE = "undecodable"  # the arguments are not a JSON object
    NOT_OFFERED = "not_offered"  # no tool of this name was offered
    CUT_OFF = "cut_off"  # the response ended early (length, filter, error): its calls may be incomplete


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """The model's request to run a tool.

    `id` is unique in a run and is what goes back on the wire unless the adapter must map it. `arguments` is
    `None` where they can't be decoded; `arguments_raw` then holds the text as it came. `provider_id` is what the
    provider sent (may be missing or a duplicate), `extra` what the provider wants back on this call unchanged.
    """

    id: str
    name: str
    arguments: dict[str, JSON] | None
    arguments_raw: str | None = None
    provider_id: str | None = None
    problem: CallProblem | None = None
    extra: JSON = None

    @property
    def executable(self) -> bool:
        return self.problem is None

    def to_json(self) -> dict[str, JSON]:
        data: dict[str, JSON] = {"id": self.id, "name": self.name, "arguments": self.arguments}
        for name in ("arguments_raw", "provider_id", "problem", "extra"):
            if (value := getattr(self, name)) is not None:
                data[name] = value
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, JSON]) -> Self:
        problem = data.get("problem")
        return cls(**{**data, "problem": CallProblem(problem) if problem else None})


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One piece of a message's content.

    `text` is the content of the kinds text and thinking; an image holds `media_type` and base64 `data`. `extra` is
    whatever the provider wants back unchanged with this part (signatures, whole blocks), opaque to everyone else.
    `cache_boundary` marks the end of a reusable prefix.
    """

    kind: Literal["text", "thinking", "image", "provider"] = "text"
    text: str = ""
    media_type: str | None = None
    data: str | None = None
    extra: JSON = None
    cache_boundary: bool = False

    def to_json(self) -> dict[str, JSON]:
        data: dict[str, JSON] = {"kind": self.kind, "text": self.text}
        for name in ("media_type", "data", "extra"):
            if (value := getattr(self, name)) is not None:
                data[name] = value
        if self.cache_boundary:
            data["cache_boundary"] = True
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, JSON]) -> Self:
        return cls(**data)


@dataclass(frozen=True, kw_only=True)
class Message:
    """One entry of a transcript. Immutable, addressed by `digest`.

    A tool message answers the call `tool_call_id` of the tool `name`; `is_error` tells the model that it failed. A
    user message has a `name` only where it is not what somebody said, but stands for earlier turns.
    """

    role: Role
    parts: tuple[Part, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    is_error: bool = False

    @classmethod
    def of(cls, role: Role, text: str) -> Self:
        return cls(role=role, parts=(Part(text=text),))

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if part.kind == "text")

    @property
    def thinking(self) -> str:
        return "".join(part.text for part in self.parts if part.kind == "thinking")

    @cached_property
    def json(self) -> dict[str, JSON]:
        data: dict[str, JSON] = {"role": self.role, "parts": [part.to_json() for part in self.parts]}
        if self.tool_calls:
            data["tool_calls"] = [call.to_json() for call in self.tool_calls]
        if self.tool_call_id is not None:
            data["tool_call_id"] = self.tool_call_id
        if self.name is not None:
            data["name"] = self.name
        if self.is_error:
            data["is_error"] = True
        return data

    @cached_property
    def digest(self) -> str:
        return digest_of(self.json)

    @classmethod
    def from_json(cls, data: Mapping[str, JSON]) -> Self:
        return cls(
            **{
                **data,
                "parts": tuple(Part.from_json(part) for part in data["parts"]),
                "tool_calls": tuple(ToolCall.from_json(call) for call in data.get("tool_calls", ())),
            }
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolSpec:
    """A tool as it is offered to a model: `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: dict[str, JSON]

    def to_json(self) -> dict[str, JSON]:
        return {"name": self.name, "description": self.description, "parameters": self.parameters}

    @classmethod
    def from_json(cls, data: Mapping[str, JSON]) -> Self:
        return cls(**data)


@dataclass(frozen=True, kw_only=True, slots=True)
class Delta:
    """A piece of a streamed answer, for the live view. `tool_call` deltas carry the arguments' text."""

    kind: Literal["text", "thinking", "tool_call"]
    text: str


@dataclass(frozen=True, kw_only=True)
class ModelResponse:
    """What one provider call gave, whether it succeeded or not.

    A failure is data: `error` is set and whatever arrived before it is kept in `message`; then no call is
    executable. `finish_reason` is `None` where no round took place (an HTTP error) and where the caller cut the
    stream (`cancelled`). `finish_reason_raw` is the provider's word: "" where it sent none.
    """

    message: Message = field(default_factory=lambda: Message(role="assistant"))
    finish_reason: FinishReason | None = None
    finish_reason_raw: str | None = None
    usage: Usage | None = None
    error: ProviderError | None = None
    refusal: str | None = None
    cancelled: bool = False
    served_model: str | None = None
    response_id: str | None = None
    provider_cost: Decimal | None = None

    @property
    def text(self) -> str:
        return self.message.text

    @property
    def thinking(self) -> str:
        return self.message.thinking

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return self.message.tool_calls
