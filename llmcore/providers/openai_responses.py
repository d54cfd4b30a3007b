"""OpenAI Responses: a conversation is a list of items, and the model's own items go back as they came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from llmcore.configuration import Provider
from llmcore.errors import ConfigurationError
from llmcore.messages import JSON, Message, ModelResponse, Part, ToolCall, ToolSpec
from llmcore.providers import derived_schemas
from llmcore.providers.base import Adapter, ModelCall, StreamDecoder, WireReply, WireRequest
from llmcore.providers.blocks import extra_of, in_order
from llmcore.providers.json_text import encode_json
from llmcore.providers.prompt_cache import OPENAI, CacheRules
from llmcore.providers.responses_reading import WIRE, read_responses_reply, responses_stream
from llmcore.providers.tool_names import short_id, wire_name
from llmcore.providers.tool_options import tool_options

MAX_ID = 64


class OpenAIResponses(Adapter):
    """The wire format of OpenAI Responses, without anything kept on the server. A unit is one message."""

    name = "openai_responses"
    label = "OpenAI (Responses)"
    default_base_url = "https://api.openai.com/v1"
    supports_tool_choice_none = True
    unknown_parameters = frozenset({"seed", "stop"})
    schema_rules = derived_schemas.OPENAI_STRICT

    def cache_rules(self, model: str) -> CacheRules:
        return OPENAI

    def wire_id(self, call_id: str) -> str:
        return short_id(call_id, MAX_ID)

    def encode(self, unit: Sequence[Message], call: ModelCall) -> bytes:
        (message,) = unit
        return b",".join(encode_json(item) for item in self._items(message, call))

    def _items(self, message: Message, call: ModelCall) -> Iterable[JSON]:
        match message.role:
            case "assistant":
                return (found for item in in_order(message) if (found := self._own(item)) is not None)
            case "tool":
                identity = self.wire_id(message.tool_call_id or "")
                return [{"type": "function_call_output", "call_id": identity, "output": message.text}]
        parts = [part for part in message.parts if part.kind in ("text", "image")]
        plain = message.role == "system" or (len(parts) < 2 and all(part.kind == "text" for part in parts))
        content = message.text if plain else [self._content(part, call) for part in parts]
        return [{"role": message.role, "content": content}]

    def _content(self, part: Part, call: ModelCall) -> JSON:
        if part.kind == "text":
            return {"type": "input_text", "text": part.text}
        if not call.model.supports_images:
            raise ConfigurationError(f"The model {call.model.name!r} takes no images.")
        return {"type": "input_image", "image_url": f"data:{part.media_type};base64,{part.data}"}

    def _own(self, item: Part | ToolCall) -> JSON:
        """An item of the model's, as it was where it came over this wire."""
        kept = extra_of(item, WIRE).get("item")
        if isinstance(item, ToolCall):
            call = {"type": "function_call", "call_id": self.wire_id(item.id), "name": wire_name(item.name)}
            return {**(kept or {}), **call, "arguments": encode_json(item.arguments or {}).decode()}
        if item.kind == "text" and item.text:
            if kept is None:
                return {"role": "assistant", "content": item.text}
            return {**kept, "content": [{"type": "output_text", "text": item.text, "annotations": []}]}
        return kept if item.kind in ("thinking", "provider") else None

    def frame(self, call: ModelCall, units: Sequence[bytes]) -> WireRequest:
        head = encode_json({"model": call.model.name})[:-1]
        tail = encode_json(self._options(call))[1:]
        return WireRequest(
            method="POST",
            url=self.versioned_base_url(call.provider, "v1") + "/responses",
            headers={
                "content-type": "application/json",
                "accept": self.stream_media_type if call.stream else "application/json",
            },
            body=b"".join((head, b',"input":[', b",".join(unit for unit in units if unit), b"],", tail)),
            secret_headers=self.key_header(call.provider.api_key) if call.provider.api_key else {},
        )

    def listing_base_url(self, provider: Provider) -> str:
        return self.versioned_base_url(provider, "v1")

    def _options(self, call: ModelCall) -> dict[str, JSON]:
        parameters, model = call.parameters, call.model
        # Nothing stays with the provider: the transcript is sent whole, and what must come back comes encrypted.
        options: dict[str, Any] = {"store": False, "max_output_tokens": parameters.max_tokens}
        if model.supports_temperature:
            options["temperature"] = parameters.temperature
            options["top_p"] = parameters.top_p
        if model.supports_thinking:
            options["include"] = ["reasoning.encrypted_content"]
            if parameters.thinking == "off":
                options["reasoning"] = {"effort": "none"}
            elif parameters.thinking:
                options["reasoning"] = {"effort": parameters.thinking, "summary": "auto"}
        if call.response_schema is not None:
            schema = {"type": "json_schema", "name": "response", "schema": call.response_schema, "strict": True}
            options["text"] = {"format": schema}
        options.update(tool_options(call, tool_json, tool_choice))
        if call.stream:
            options["stream"] = True
        return {name: value for name, value in options.items() if value is not None}

    def decode(self, reply: WireReply, call: ModelCall) -> ModelResponse:
        return read_responses_reply(reply, call)

    def stream_decoder(self, call: ModelCall) -> StreamDecoder:
        return responses_stream(call)


def tool_json(tool: ToolSpec) -> JSON:
    # Left out, strict is taken for granted there, and schemas that aren't written for it are refused.
    definition = {"type": "function", "name": tool.name, "description": tool.description}
    return {**definition, "parameters": tool.parameters, "strict": False}


def tool_choice(choice: str) -> JSON:
    match choice:
        case "auto":
            return None
        case "none" | "required":
            return choice
    return {"type": "function", "name": choice}
