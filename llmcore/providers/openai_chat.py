"""OpenAI Chat Completions: at OpenAI itself, and at any of the servers that speak it (vLLM, llama.cpp, LM Studio)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llmcore.configuration import ThinkingEffort
from llmcore.errors import ConfigurationError
from llmcore.messages import JSON, Message, ModelResponse, Part, ToolCall, ToolSpec
from llmcore.providers import derived_schemas, prompt_cache
from llmcore.providers.base import Adapter, ModelCall, StreamDecoder, WireReply, WireRequest
from llmcore.providers.json_text import encode_json
from llmcore.providers.openai_reading import chat_stream, read_chat_reply
from llmcore.providers.tool_names import short_id, wire_name
from llmcore.providers.tool_options import tool_options


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """What differs between two services that speak Chat Completions."""

    name: str
    label: str
    default_base_url: str = ""
    needs_key: bool = True
    max_tokens_field: str = "max_tokens"
    seed_field: str = "seed"
    # Whether usage comes at the end of a stream only where it is asked for.
    asks_for_usage: bool = True
    # Whether thinking goes back, under the name of the field it came in.
    returns_thinking: bool = True
    # The longest id of a call that is accepted in the history.
    max_id_chars: int | None = None
    cache: prompt_cache.CacheRules = prompt_cache.UNKNOWN
    schemas: derived_schemas.SchemaRules = derived_schemas.ANY


OPENAI_COMPAT = Dialect(name="openai_compat", label="OpenAI-compatible server", needs_key=False)
# max_tokens is deprecated there, and reasoning models refuse it; thinking is never text on this wire.
OPENAI = Dialect(
    name="openai_chat",
    label="OpenAI (Chat Completions)",
    default_base_url="https://api.openai.com/v1",
    max_tokens_field="max_completion_tokens",
    returns_thinking=False,
    max_id_chars=40,
    cache=prompt_cache.OPENAI,
    schemas=derived_schemas.OPENAI_STRICT,
)


class OpenAIChat(Adapter):
    """The wire format of Chat Completions, in one of its dialects. A unit is one message."""

    supports_tool_choice_none = True

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.name = dialect.name
        self.label = dialect.label
        self.default_base_url = dialect.default_base_url
        self.needs_key = dialect.needs_key
        self.schema_rules = dialect.schemas

    def cache_rules(self, model: str) -> prompt_cache.CacheRules:
        return self.dialect.cache

    def wire_id(self, call_id: str) -> str:
        limit = self.dialect.max_id_chars
        return call_id if limit is None else short_id(call_id, limit)

    def encode(self, unit: Sequence[Message], call: ModelCall) -> bytes:
        (message,) = unit
        match message.role:
            case "assistant":
                return encode_json(self.assistant(message))
            case "tool":
                identity = self.wire_id(message.tool_call_id or "")
                return encode_json({"role": "tool", "tool_call_id": identity, "content": message.text})
        return encode_json({"role": message.role, "content": self.content(message, call)})

    def content(self, message: Message, call: ModelCall) -> JSON:
        """The content of a system or user message."""
        return content_of(message, call)

    def assistant(self, message: Message) -> dict[str, JSON]:
        text = message.text
        # Beside calls null is the usual way to say that there is no text; without any, some servers refuse it.
        data: dict[str, JSON] = {"role": "assistant", "content": text or (None if message.tool_calls else "")}
        if self.dialect.returns_thinking:
            for part in message.parts:
                if part.kind == "thinking" and wire_of(part) in (self.name, None):
                    add_thinking(data, part)
        if message.tool_calls:
            data["tool_calls"] = [self._call(call) for call in message.tool_calls]
        return data

    def _call(self, call: ToolCall) -> dict[str, JSON]:
        # Servers parse the arguments of the history: text that can't be decoded is a 400 or a 500 there, and so is "".
        arguments = encode_json(call.arguments or {}).decode()
        function = {"name": wire_name(call.name), "arguments": arguments}
        return {"id": self.wire_id(call.id), "type": "function", "function": function}

    def frame(self, call: ModelCall, units: Sequence[bytes]) -> WireRequest:
        head = encode_json({"model": call.model.name})[:-1]
        tail = encode_json(self._options(call))
        # The tail is an object of its own; its brace is replaced by a comma.
        tail = b"," + tail[1:] if tail != b"{}" else b"}"
        return WireRequest(
            method="POST",
            url=self.url(call),
            headers={
                "content-type": "application/json",
                "accept": self.stream_media_type if call.stream else "application/json",
            },
            body=b"".join((head, b',"messages":[', b",".join(units), b"]", tail)),
            secret_headers=self.key_header(call.provider.api_key) if call.provider.api_key else {},
        )

    def url(self, call: ModelCall) -> str:
        return self.base_url(call.provider) + "/chat/completions"

    def _options(self, call: ModelCall) -> dict[str, JSON]:
        parameters, model = call.parameters, call.model
        options: dict[str, Any] = {}
        if model.supports_temperature:
            options["temperature"] = parameters.temperature
            options["top_p"] = parameters.top_p
        options[self.dialect.max_tokens_field] = parameters.max_tokens
        options[self.dialect.seed_field] = parameters.seed
        options["stop"] = list(parameters.stop) or None
        if model.supports_thinking and parameters.thinking:
            options.update(self.thinking_options(call, parameters.thinking))
        if call.response_schema is not None:
            options["response_format"] = self.response_format(call.response_schema)
        options.update(tool_options(call, tool_json, tool_choice))
        if call.stream:
            options["stream"] = True
            if self.dialect.asks_for_usage:
                options["stream_options"] = {"include_usage": True}
        return {name: value for name, value in options.items() if value is not None}

    def thinking_options(self, call: ModelCall, effort: ThinkingEffort) -> dict[str, JSON]:
        """How a model that thinks is told how much."""
        return {"reasoning_effort": "none" if effort == "off" else effort}

    def response_format(self, schema: JSON) -> JSON:
        return {"type": "json_schema", "json_schema": {"name": "response", "schema": schema, "strict": True}}

    def decode(self, reply: WireReply, call: ModelCall) -> ModelResponse:
        return read_chat_reply(reply, call)

    def stream_decoder(self, call: ModelCall) -> StreamDecoder:
        return chat_stream(call)


def content_of(message: Message, call: ModelCall) -> JSON:
    """The content of a system or user message: a text, or a list where it has several parts."""
    parts = [part for part in message.parts if part.kind in ("text", "image")]
    if message.role == "system" or (len(parts) < 2 and all(part.kind == "text" for part in parts)):
        return message.text
    return [content_part(part, call) for part in parts]


def content_part(part: Part, call: ModelCall) -> JSON:
    if part.kind == "text":
        return {"type": "text", "text": part.text}
    if not call.model.supports_images:
        raise ConfigurationError(f"The model {call.model.name!r} takes no images.")
    return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}


def wire_of(part: Part) -> str | None:
    """The wire format that a part came over; `None` where an older version kept it without that."""
    wire = part.extra.get("wire") if isinstance(part.extra, dict) else None
    return wire if isinstance(wire, str) else None


def add_thinking(data: dict[str, JSON], part: Part) -> None:
    """Put thinking back into an assistant message in the form in which it came."""
    extra = part.extra if isinstance(part.extra, dict) else {}
    if details := extra.get("details"):
        # The plain text beside them says the same once more.
        data["reasoning_details"] = details
    elif isinstance(chunk := extra.get("chunk"), dict):
        thinking = {"type": "thinking", "thinking": [{"type": "text", "text": part.text}], **chunk}
        text = data["content"]
        data["content"] = [thinking, {"type": "text", "text": text}] if text else [thinking]
    elif field := field_of(part):
        data[field] = data.get(field, "") + part.text


def field_of(part: Part) -> str | None:
    field = part.extra.get("field") if isinstance(part.extra, dict) else None
    return field if isinstance(field, str) else None


def tool_json(tool: ToolSpec) -> JSON:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }


def tool_choice(choice: str) -> JSON:
    match choice:
        case "auto":
            return None
        case "none" | "required":
            return choice
    return {"type": "function", "function": {"name": choice}}
