"""Ollama's own API (/api/chat): NDJSON streams, arguments as objects, and a context window that must be asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmcore.configuration import Provider
from llmcore.errors import ConfigurationError
from llmcore.messages import JSON, Message, ModelResponse, Part, ToolCall
from llmcore.providers import derived_schemas
from llmcore.providers.base import Adapter, ModelCall, StreamDecoder, WireReply, WireRequest
from llmcore.providers.json_text import encode_json
from llmcore.providers.ollama_reading import OLLAMA_USAGE, THINKING_FIELD, OllamaStream, read_ollama_reply
from llmcore.providers.openai_chat import tool_json


class Ollama(Adapter):
    """Ollama's native wire format. A unit is one message. It has no tool choice."""

    name = "ollama"
    label = "Ollama"
    usage_fields = OLLAMA_USAGE
    default_base_url = "http://127.0.0.1:11434"
    needs_key = False
    listing_path = "/api/tags"
    unknown_parameters = frozenset({"parallel_tool_calls", "tool_choice"})
    schema_rules = derived_schemas.OLLAMA
    stream_media_type = "application/x-ndjson"

    def encode(self, unit: Sequence[Message], call: ModelCall) -> bytes:
        (message,) = unit
        data: dict[str, JSON] = {"role": message.role, "content": message.text}
        if images := [self._image(part, call) for part in message.parts if part.kind == "image"]:
            data["images"] = images
        if message.role == "assistant":
            if thinking := "".join(part.text for part in message.parts if returns(part)):
                data["thinking"] = thinking
            if message.tool_calls:
                data["tool_calls"] = [call_json(call) for call in message.tool_calls]
        elif message.role == "tool":
            data["tool_name"] = message.name
            data["tool_call_id"] = message.tool_call_id
        return encode_json(data)

    def _image(self, part: Part, call: ModelCall) -> str | None:
        if not call.model.supports_images:
            raise ConfigurationError(f"The model {call.model.name!r} takes no images.")
        return part.data

    def frame(self, call: ModelCall, units: Sequence[bytes]) -> WireRequest:
        head = encode_json({"model": call.model.name})[:-1]
        tail = encode_json(self._options(call))[1:]
        base_url = self.base_url(call.provider).removesuffix("/api")
        return WireRequest(
            method="POST",
            url=base_url + "/api/chat",
            headers={
                "content-type": "application/json",
                "accept": self.stream_media_type if call.stream else "application/json",
            },
            body=b"".join((head, b',"messages":[', b",".join(units), b"],", tail)),
            secret_headers=self.key_header(call.provider.api_key) if call.provider.api_key else {},
        )

    def listing_base_url(self, provider: Provider) -> str:
        return self.base_url(provider).removesuffix("/api")

    def _options(self, call: ModelCall) -> dict[str, JSON]:
        parameters, model = call.parameters, call.model
        options: dict[str, Any] = {
            # Ollama's default window is small, and what doesn't fit is cut in silence unless told otherwise.
            "num_ctx": model.context_window,
            "num_predict": parameters.max_tokens,
            "seed": parameters.seed,
            "stop": list(parameters.stop) or None,
        }
        if model.supports_temperature:
            options["temperature"] = parameters.temperature
            options["top_p"] = parameters.top_p
        options = {name: value for name, value in options.items() if value is not None}
        body: dict[str, JSON] = {"stream": call.stream, "truncate": False, "shift": False}
        if options:
            body["options"] = options
        if model.supports_thinking and parameters.thinking:
            body["think"] = False if parameters.thinking == "off" else parameters.thinking
        if call.response_schema is not None:
            body["format"] = call.response_schema
        if call.tools and call.tool_choice != "none":
            body["tools"] = [tool_json(tool) for tool in call.tools]
        return body

    def decode(self, reply: WireReply, call: ModelCall) -> ModelResponse:
        return read_ollama_reply(reply, call)

    def stream_decoder(self, call: ModelCall) -> StreamDecoder:
        return OllamaStream(call)


def returns(part: Part) -> bool:
    """Whether a part is thinking that came in Ollama's own field."""
    return part.kind == "thinking" and isinstance(part.extra, dict) and part.extra.get("field") == THINKING_FIELD


def call_json(call: ToolCall) -> JSON:
    return {"id": call.id, "function": {"name": call.name, "arguments": call.arguments or {}}}
