"""DeepSeek: Chat Completions whose thinking goes back with tool calls only, and whose JSON mode knows no schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llmcore.configuration import ThinkingEffort
from llmcore.messages import JSON, Message
from llmcore.providers import prompt_cache
from llmcore.providers.base import ModelCall, WireRequest
from llmcore.providers.openai_chat import Dialect, OpenAIChat

DEEPSEEK = Dialect(
    name="deepseek", label="DeepSeek", default_base_url="https://api.deepseek.com", cache=prompt_cache.DEEPSEEK
)


class DeepSeek(OpenAIChat):
    """The wire format of DeepSeek."""

    holds_schemas = False

    def __init__(self) -> None:
        super().__init__(DEEPSEEK)

    def assistant(self, message: Message) -> dict[str, JSON]:
        # With calls it has to go back; without, it is ignored or, by older models, refused.
        if not message.tool_calls:
            message = replace(message, parts=tuple(part for part in message.parts if part.kind != "thinking"))
        return super().assistant(message)

    def frame(self, call: ModelCall, units: Sequence[bytes]) -> WireRequest:
        if call.tool_choice not in ("auto", "none") and thinks(call):
            call = replace(call, tool_choice="auto")
        return super().frame(call, units)

    def left_out(self, call: ModelCall) -> dict[str, str]:
        reasons = super().left_out(call)
        if call.parameters.tool_choice is not None and thinks(call):
            reasons.setdefault("tool_choice", "DeepSeek requires no call together with thinking.")
        return reasons

    def thinking_options(self, call: ModelCall, effort: ThinkingEffort) -> dict[str, JSON]:
        if effort == "off":
            return {"thinking": {"type": "disabled"}}
        return {"thinking": {"type": "enabled"}, "reasoning_effort": effort}

    def response_format(self, schema: JSON) -> JSON:
        return {"type": "json_object"}


def thinks(call: ModelCall) -> bool:
    """Thinking is on there unless it is switched off."""
    return call.model.supports_thinking and call.parameters.thinking != "off"
