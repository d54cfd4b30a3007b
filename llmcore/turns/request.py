"""What another engine asks for, read from JSON that may be anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from llmcore.errors import ConfigurationError
from llmcore.messages import JSON, Message, Part, ToolSpec
from llmcore.providers.json_text import decode_json
from llmcore.redaction import Redactor, storable
from llmcore.tools.arguments import objections, validator_for

MAX_MESSAGES = 2_000
MAX_TOOLS = 500
MAX_NAME = 200
LOOKED_UP = ("configuration", "user", "call")

_TEXT = {"type": "string"}
_NAME = {"type": "string", "minLength": 1, "maxLength": MAX_NAME}
_NULLABLE = {"type": ["string", "null"]}
_CALL = {
    "type": "object",
    "properties": {
        "id": _NAME,
        "name": _NAME,
        "arguments": {"type": ["object", "null"]},
        "arguments_raw": _NULLABLE,
        "provider_id": _NULLABLE,
        "problem": {"enum": ["undecodable", "not_offered", "cut_off", None]},
        "extra": True,
    },
    "required": ["id", "name", "arguments"],
    "additionalProperties": False,
}
_PART = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["text", "thinking", "image", "provider"]},
        "text": _TEXT,
        "media_type": _NULLABLE,
        "data": _NULLABLE,
        "extra": True,
        "cache_boundary": {"type": "boolean"},
    },
    "required": ["kind"],
    "additionalProperties": False,
}
_MESSAGE = {
    "type": "object",
    "properties": {
        "role": {"enum": ["system", "user", "assistant", "tool"]},
        "content": _TEXT,
        "parts": {"type": "array", "items": _PART},
        "tool_calls": {"type": "array", "items": _CALL},
        "tool_call_id": _NULLABLE,
        "name": _NULLABLE,
        "is_error": {"type": "boolean"},
    },
    "required": ["role"],
    "oneOf": [{"required": ["content"]}, {"required": ["parts"]}],
    "additionalProperties": False,
}
_TOOL = {
    "type": "object",
    "properties": {"name": _NAME, "description": _TEXT, "parameters": {"type": "object"}},
    "required": ["name", "description", "parameters"],
    "additionalProperties": False,
}
TURN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "configuration": _NAME,
        "user": _NAME,
        "messages": {"type": "array", "items": _MESSAGE, "minItems": 1, "maxItems": MAX_MESSAGES},
        "tools": {"type": "array", "items": _TOOL, "maxItems": MAX_TOOLS},
        "tool_choice": {"enum": ["auto", "none", "required"]},
        "temperature": {"type": "number", "minimum": 0, "maximum": 2},
        "max_tokens": {"type": "integer", "minimum": 1},
    },
    "required": ["configuration", "messages"],
    "additionalProperties": False,
}
ACTION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "configuration": _NAME,
        "user": _NAME,
        "name": _NAME,
        "arguments": {"type": "object"},
        "call": _NAME,
    },
    "required": ["configuration", "name", "arguments"],
    "additionalProperties": False,
}


class InvalidBody(ConfigurationError):
    """What was sent is not what it has to be; the text names the places."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnRequest:
    """One turn to be asked for: the transcript as the engine keeps it, and the tools that it would run. `configuration`
    names model, parameters and limits; nothing else of it is sent. `user` is for whom the call counts."""

    configuration: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: str = "auto"
    temperature: float | None = None
    max_tokens: int | None = None
    user: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionRequest:
    """A call of a tool of this site that the engine would like to see judged. `call` is its own name for the call."""

    configuration: str
    name: str
    arguments: Mapping[str, JSON] = field(default_factory=dict)
    user: str = ""
    call: str = ""


def read_turn(body: bytes, *, redactor: Redactor) -> TurnRequest:
    """The request without the secrets that `redactor` knows. InvalidBody says what is wrong."""
    data = _read(body, "turn", redactor)
    return TurnRequest(
        **{
            **data,
            "messages": tuple(_message(message) for message in data["messages"]),
            "tools": tuple(ToolSpec.from_json(tool) for tool in data.get("tools", ())),
        }
    )


def read_action(body: bytes, *, redactor: Redactor) -> ActionRequest:
    """The request without the secrets that `redactor` knows. InvalidBody says what is wrong."""
    return ActionRequest(**_read(body, "action", redactor))


def _read(body: bytes, what: str, redactor: Redactor) -> dict[str, JSON]:
    try:
        # Before anything else: what is wrong with the body may quote it.
        data = redactor.deep(decode_json(body))
    except ValueError as error:
        raise InvalidBody(f"The body is not JSON: {error}") from error
    if found := objections(_validator(what), data):
        raise InvalidBody("The body is not what it has to be. " + "; ".join(found))
    # A database takes not all that JSON can spell.
    return {**data, **{name: storable(data[name]) for name in LOOKED_UP if name in data}}


@cache
def _validator(what: str) -> Any:
    return validator_for(TURN if what == "turn" else ACTION)


def _message(data: Mapping[str, JSON]) -> Message:
    """A message in our own form, or in the short one: `content` for a single text."""
    if "parts" in data:
        return Message.from_json(data)
    rest = {name: value for name, value in data.items() if name != "content"}
    parts = [Part(text=data["content"]).to_json()] if data["content"] else []
    return Message.from_json({**rest, "parts": parts})
