"""Google Gemini (generateContent): contents made of parts, calls without ids, and signatures on single parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from llmcore.configuration import Provider, Secret
from llmcore.errors import ConfigurationError
from llmcore.messages import JSON, Message, ModelResponse, Part, ToolCall, ToolSpec
from llmcore.providers import derived_schemas
from llmcore.providers.base import Adapter, ModelCall, StreamDecoder, WireReply, WireRequest
from llmcore.providers.blocks import extra_of, in_order
from llmcore.providers.gemini_reading import GEMINI_USAGE, WIRE, gemini_stream, read_gemini_reply
from llmcore.providers.json_text import encode_json
from llmcore.providers.open_api import is_open_api
from llmcore.providers.prompt_cache import CacheRules, gemini_rules
from llmcore.providers.thinking_budget import budget_of
from llmcore.providers.tool_names import wire_name

# Ids of our own making: Gemini gave none, so it gets none back.
MINTED = re.compile(r"call_\d{1,9}")
# How an encoded unit of system text begins; all others are contents.
SYSTEM_UNIT = b'{"text":'
# Documented for calls that another model made: newer models refuse a history of calls without signatures.
FOREIGN_SIGNATURE = "skip_thought_signature_validator"
# There is a level between "off", which these models don't know, and "low".
LEVELS = {"off": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH"}


class Gemini(Adapter):
    """The wire format of Google Gemini. A unit is a message, or all results of a turn."""

    name = "gemini"
    label = "Google Gemini"
    usage_fields = GEMINI_USAGE
    default_base_url = "https://generativelanguage.googleapis.com/v1beta"
    supports_tool_choice_none = True
    listing_path = "/models?pageSize=1000"
    unknown_parameters = frozenset({"parallel_tool_calls"})
    schema_rules = derived_schemas.GEMINI

    def cache_rules(self, model: str) -> CacheRules:
        return gemini_rules(model)

    def starts_unit(self, previous: Message | None, message: Message) -> bool:
        # As many responses in one content as there were calls, and nothing else.
        return previous is None or previous.role != "tool" or message.role != "tool"

    def encode(self, unit: Sequence[Message], call: ModelCall) -> bytes:
        first = unit[0]
        if first.role == "system":
            return b",".join(encode_json({"text": part.text}) for part in first.parts if part.text)
        if first.role == "assistant":
            return content("model", self._own_parts(first))
        return content("user", [part for message in unit for part in self._parts(message, call)])

    def _parts(self, message: Message, call: ModelCall) -> Iterable[JSON]:
        if message.role == "tool":
            return [self._result(message)]
        return [self._part(part, call) for part in message.parts if part.text or part.kind == "image"]

    def _part(self, part: Part, call: ModelCall) -> JSON:
        if part.kind != "image":
            return {"text": part.text}
        if not call.model.supports_images:
            raise ConfigurationError(f"The model {call.model.name!r} takes no images.")
        return {"inlineData": {"mimeType": part.media_type, "data": part.data}}

    def _result(self, message: Message) -> JSON:
        response = {"error" if message.is_error else "output": message.text}
        return {
            "functionResponse": {
                "name": wire_name(message.name or ""),
                "response": response,
                **id_member(message.tool_call_id or ""),
            }
        }

    def _own_parts(self, message: Message) -> Iterable[JSON]:
        first = True
        for item in in_order(message):
            extra = extra_of(item, WIRE)
            if isinstance(item, ToolCall):
                # Of several calls only the first one is signed.
                signature = extra.get("signature") or ("" if extra or not first else FOREIGN_SIGNATURE)
                first = False
                call = {"name": wire_name(item.name), "args": item.arguments or {}, **id_member(item.id)}
                yield {"functionCall": call, **({"thoughtSignature": signature} if signature else {})}
            elif item.kind == "provider":
                if extra:
                    yield extra["part"]
            elif signature := extra.get("signature"):
                thought = {"thought": True} if item.kind == "thinking" else {}
                yield {"text": item.text, **thought, "thoughtSignature": signature}
            elif item.kind == "text" and item.text:
                yield {"text": item.text}

    def frame(self, call: ModelCall, units: Sequence[bytes]) -> WireRequest:
        system = b",".join(unit for unit in units if unit.startswith(SYSTEM_UNIT))
        contents = b",".join(unit for unit in units if unit and not unit.startswith(SYSTEM_UNIT))
        system = b'"systemInstruction":{"parts":[' + system + b"]}," if system else b""
        options = encode_json(self._options(call))
        tail = b"," + options[1:] if options != b"{}" else b"}"
        method = ":streamGenerateContent?alt=sse" if call.stream else ":generateContent"
        return WireRequest(
            method="POST",
            url=f"{self.versioned_base_url(call.provider, 'v1beta')}/{model_path(call.model.name)}{method}",
            headers={
                "content-type": "application/json",
                "accept": self.stream_media_type if call.stream else "application/json",
            },
            body=b"".join((b"{", system, b'"contents":[', contents, b"]", tail)),
            # In the address, where it works too, it would end up in logs.
            secret_headers=self.key_header(call.provider.api_key) if call.provider.api_key else {},
        )

    def key_header(self, key: Secret) -> dict[str, tuple[str, Secret]]:
        return {"x-goog-api-key": ("", key)}

    def listing_base_url(self, provider: Provider) -> str:
        return self.versioned_base_url(provider, "v1beta")

    def _options(self, call: ModelCall) -> dict[str, JSON]:
        parameters, model = call.parameters, call.model
        generation: dict[str, Any] = {
            "maxOutputTokens": parameters.max_tokens,
            "stopSequences": list(parameters.stop) or None,
            "seed": parameters.seed,
        }
        if model.supports_temperature:
            generation["temperature"] = parameters.temperature
            generation["topP"] = parameters.top_p
        if call.response_schema is not None:
            generation["responseMimeType"] = "application/json"
            generation["responseJsonSchema"] = call.response_schema
        if model.supports_thinking and parameters.thinking:
            generation["thinkingConfig"] = thinking_config(call)
        generation = {name: value for name, value in generation.items() if value is not None}
        return {**self._tools(call), **({"generationConfig": generation} if generation else {})}

    def _tools(self, call: ModelCall) -> dict[str, JSON]:
        choosable = call.model.supports_tool_choice
        if not call.tools or (call.tool_choice == "none" and not choosable):
            return {}
        options: dict[str, JSON] = {"tools": [{"functionDeclarations": [declaration(tool) for tool in call.tools]}]}
        if choosable and (mode := calling_mode(call.tool_choice)):
            options["toolConfig"] = {"functionCallingConfig": mode}
        return options

    def decode(self, reply: WireReply, call: ModelCall) -> ModelResponse:
        return read_gemini_reply(reply, call)

    def stream_decoder(self, call: ModelCall) -> StreamDecoder:
        return gemini_stream(call)


def content(role: str, parts: Iterable[JSON]) -> bytes:
    """A content; one without parts is refused there, so it is nothing."""
    found = list(parts)
    return encode_json({"role": role, "parts": found}) if found else b""


def model_path(name: str) -> str:
    """Where a model is in the address; names may be given with the collection that they are in."""
    collection, slash, rest = name.partition("/")
    if not (slash and collection in ("models", "tunedModels")):
        collection, rest = "models", name
    return f"{collection}/{quote(rest, safe='')}"


def id_member(call_id: str) -> dict[str, JSON]:
    return {} if not call_id or MINTED.fullmatch(call_id) else {"id": call_id}


def thinking_config(call: ModelCall) -> JSON:
    effort = call.parameters.thinking or "off"
    config: dict[str, JSON] = {"includeThoughts": effort != "off"}
    if call.model.thinking_control == "budget":
        return {**config, "thinkingBudget": budget_of(effort, call.parameters.max_tokens)}
    return {**config, "thinkingLevel": LEVELS[effort]}


def declaration(tool: ToolSpec) -> JSON:
    declared: dict[str, JSON] = {"name": tool.name, "description": tool.description}
    if not tool.parameters.get("properties"):
        # An object without members is refused; a function without parameters is not.
        return declared
    field = "parameters" if is_open_api(tool.parameters) else "parametersJsonSchema"
    return {**declared, field: tool.parameters}


def calling_mode(choice: str) -> JSON:
    match choice:
        case "auto":
            return None
        case "none":
            return {"mode": "NONE"}
        case "required":
            return {"mode": "ANY"}
    return {"mode": "ANY", "allowedFunctionNames": [choice]}
