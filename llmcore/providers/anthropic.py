"""Anthropic Messages: answers are lists of blocks, thinking is signed, and cache boundaries are marked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from llmcore.configuration import Provider, Secret
from llmcore.errors import ConfigurationError
from llmcore.messages import JSON, Message, ModelResponse, Part, ToolCall, ToolSpec
from llmcore.providers import derived_schemas
from llmcore.providers.anthropic_reading import ANTHROPIC_USAGE, WIRE, anthropic_stream, read_anthropic_reply
from llmcore.providers.base import Adapter, ModelCall, StreamDecoder, WireReply, WireRequest
from llmcore.providers.blocks import extra_of, in_order
from llmcore.providers.cache_marks import CACHE_MARK, at_most
from llmcore.providers.json_text import encode_json
from llmcore.providers.prompt_cache import CacheRules, anthropic_rules
from llmcore.providers.thinking_budget import budget_of
from llmcore.providers.tool_names import id_digest, wire_name

VERSION = "2023-06-01"
ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# The wire wants a limit in every request; this one is for models of which none is known.
DEFAULT_MAX_TOKENS = 8_192
# Over tools, system and messages together, the one of the whole request included.
MAX_MARKS = 4
# How an encoded unit of system text begins; all others are messages.
SYSTEM_UNIT = b'{"type":"text"'


class Anthropic(Adapter):
    """The wire format of Anthropic Messages. A unit is a message, or the results of a turn with what the user adds."""

    name = "anthropic"
    label = "Anthropic"
    usage_fields = ANTHROPIC_USAGE
    default_base_url = "https://api.anthropic.com/v1"
    supports_tool_choice_none = True
    listing_path = "/models?limit=1000"
    unknown_parameters = frozenset({"seed"})
    schema_rules = derived_schemas.ANTHROPIC

    def cache_rules(self, model: str) -> CacheRules:
        return anthropic_rules(model)

    def wire_id(self, call_id: str) -> str:
        if ID.fullmatch(call_id):
            return call_id
        return "toolu_" + id_digest(call_id)[:32]

    def starts_unit(self, previous: Message | None, message: Message) -> bool:
        # The results of a turn stand in one message, before everything that the user says.
        return previous is None or previous.role != "tool" or message.role not in ("tool", "user")

    def encode(self, unit: Sequence[Message], call: ModelCall) -> bytes:
        first = unit[0]
        if first.role == "system":
            return b",".join(encode_json(block) for block in self._user_blocks(first, call))
        if first.role == "assistant":
            return self._turn("assistant", self._assistant_blocks(first))
        return self._turn("user", [block for message in unit for block in self._blocks(message, call)])

    def _turn(self, role: str, blocks: Iterable[JSON]) -> bytes:
        """A message; one without content is refused there, so it is nothing."""
        content = list(blocks)
        return encode_json({"role": role, "content": content}) if content else b""

    def _blocks(self, message: Message, call: ModelCall) -> Iterable[JSON]:
        return [self._result(message)] if message.role == "tool" else self._user_blocks(message, call)

    def _user_blocks(self, message: Message, call: ModelCall) -> Iterable[JSON]:
        for part in message.parts:
            mark = CACHE_MARK if part.cache_boundary else {}
            if part.kind == "text" and part.text.strip():
                yield {"type": "text", "text": part.text, **mark}
            elif part.kind == "image":
                yield {**self._image(part, call), **mark}

    def _image(self, part: Part, call: ModelCall) -> dict[str, JSON]:
        if not call.model.supports_images:
            raise ConfigurationError(f"The model {call.model.name!r} takes no images.")
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
        return {"type": "image", "source": source}

    def _result(self, message: Message) -> dict[str, JSON]:
        identity = self.wire_id(message.tool_call_id or "")
        block: dict[str, JSON] = {"type": "tool_result", "tool_use_id": identity, "content": message.text}
        if message.is_error:
            block["is_error"] = True
        return block

    def _assistant_blocks(self, message: Message) -> Iterable[JSON]:
        for item in in_order(message):
            block = self._use(item) if isinstance(item, ToolCall) else own_block(item)
            if block is not None:
                yield block

    def _use(self, call: ToolCall) -> JSON:
        kept = {name: value for name, value in extra_of(call, WIRE).items() if name == "caller"}
        use = {"type": "tool_use", "id": self.wire_id(call.id), "name": wire_name(call.name)}
        return {**use, "input": call.arguments or {}, **kept}

    def frame(self, call: ModelCall, units: Sequence[bytes]) -> WireRequest:
        # Where a loop is to be expected, its latest round is a boundary too: the mark of the whole request.
        marks = MAX_MARKS - 1 if call.tools else MAX_MARKS
        units = at_most(marks, [unit for unit in units if unit])
        system = b",".join(unit for unit in units if unit.startswith(SYSTEM_UNIT))
        messages = b",".join(unit for unit in units if not unit.startswith(SYSTEM_UNIT))
        options = self._options(call)
        head = encode_json({name: options.pop(name) for name in ("model", "max_tokens")})[:-1]
        tools = b',"tools":' + encode_json(options.pop("tools")) if "tools" in options else b""
        tail = b"," + encode_json(options)[1:] if options else b"}"
        system = b',"system":[' + system + b"]" if system else b""
        return WireRequest(
            method="POST",
            url=self.versioned_base_url(call.provider, "v1") + "/messages",
            headers={
                "content-type": "application/json",
                "accept": self.stream_media_type if call.stream else "application/json",
                "anthropic-version": VERSION,
            },
            body=b"".join((head, tools, system, b',"messages":[', messages, b"]", tail)),
            secret_headers=self.key_header(call.provider.api_key) if call.provider.api_key else {},
        )

    def key_header(self, key: Secret) -> dict[str, tuple[str, Secret]]:
        return {"x-api-key": ("", key)}

    def listing_base_url(self, provider: Provider) -> str:
        return self.versioned_base_url(provider, "v1")

    def listing(self, provider: Provider) -> WireRequest:
        request = super().listing(provider)
        return replace(request, headers={**request.headers, "anthropic-version": VERSION})

    def _options(self, call: ModelCall) -> dict[str, Any]:
        parameters = call.parameters
        max_tokens = parameters.max_tokens or call.model.max_output_tokens or DEFAULT_MAX_TOKENS
        options: dict[str, Any] = {"model": call.model.name, "max_tokens": max_tokens}
        if call.model.supports_temperature and not thinks(call):
            options["temperature"] = parameters.temperature
            options["top_p"] = parameters.top_p
        options["stop_sequences"] = list(parameters.stop) or None
        output = self._thinking(call, options)
        if call.response_schema is not None:
            output["format"] = {"type": "json_schema", "schema": call.response_schema}
        options["output_config"] = output or None
        options.update(self._tools(call))
        if call.stream:
            options["stream"] = True
        return {name: value for name, value in options.items() if value is not None}

    def left_out(self, call: ModelCall) -> dict[str, str]:
        reasons = super().left_out(call)
        if thinks(call):
            for name in ("temperature", "top_p"):
                if getattr(call.parameters, name) is not None:
                    reasons.setdefault(name, "Anthropic takes none together with thinking.")
        if call.parameters.tool_choice is not None and not may_force(call):
            reasons.setdefault("tool_choice", "Anthropic requires no call together with a budget for thinking.")
        return reasons

    def _thinking(self, call: ModelCall, options: dict[str, Any]) -> dict[str, JSON]:
        """Put the request for thinking among the options; what belongs into `output_config` is returned."""
        effort = call.parameters.thinking
        if not call.model.supports_thinking or effort is None:
            return {}
        if effort == "off":
            options["thinking"] = {"type": "disabled"}
        elif call.model.thinking_control == "budget":
            options["thinking"] = {"type": "enabled", "budget_tokens": budget_of(effort, options["max_tokens"])}
        else:
            # Newer models think in silence unless a summary is asked for.
            options["thinking"] = {"type": "adaptive", "display": "summarized"}
            return {"effort": effort}
        return {}

    def _tools(self, call: ModelCall) -> dict[str, JSON]:
        choosable = call.model.supports_tool_choice
        if not call.tools or (call.tool_choice == "none" and not choosable):
            return {}
        forced = call.tool_choice not in ("auto", "none")
        choice: dict[str, JSON] = {"type": "auto"}
        if choosable and (may_force(call) or not forced):
            choice = tool_choice(call.tool_choice)
        if call.parameters.parallel_tool_calls is not None and choice["type"] != "none":
            choice["disable_parallel_tool_use"] = not call.parameters.parallel_tool_calls
        return {
            "tools": [tool_json(tool) for tool in call.tools],
            "tool_choice": choice if choice != {"type": "auto"} else None,
            **CACHE_MARK,
        }

    def decode(self, reply: WireReply, call: ModelCall) -> ModelResponse:
        return read_anthropic_reply(reply, call)

    def stream_decoder(self, call: ModelCall) -> StreamDecoder:
        return anthropic_stream(call)


def thinks(call: ModelCall) -> bool:
    return call.model.supports_thinking and call.parameters.thinking not in (None, "off")


def may_force(call: ModelCall) -> bool:
    """Whether a call of a tool may be required: not while a budget of tokens is set for thinking."""
    return not (thinks(call) and call.model.thinking_control == "budget")


def own_block(part: Part) -> JSON:
    """A part of an answer as the block that it was. Thinking without a signature of Anthropic's would be refused."""
    extra = extra_of(part, WIRE)
    match part.kind:
        case "text" if part.text.strip():
            citations = {"citations": extra["citations"]} if extra.get("citations") else {}
            return {"type": "text", "text": part.text, **citations}
        case "thinking" if extra.get("signature"):
            return {"type": "thinking", "thinking": part.text, "signature": extra["signature"]}
        case "provider" if extra:
            return extra["block"]
    return None


def tool_json(tool: ToolSpec) -> JSON:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def tool_choice(choice: str) -> dict[str, JSON]:
    match choice:
        case "auto" | "none":
            return {"type": choice}
        case "required":
            return {"type": "any"}
    return {"type": "tool", "name": choice}
