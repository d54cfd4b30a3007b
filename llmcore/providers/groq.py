"""Groq: Chat Completions, with its own way of asking for thinking apart from the answer."""

from __future__ import annotations

from llmcore.configuration import ThinkingEffort
from llmcore.messages import JSON
from llmcore.providers import derived_schemas, prompt_cache
from llmcore.providers.base import ModelCall
from llmcore.providers.openai_chat import Dialect, OpenAIChat

GROQ = Dialect(
    name="groq",
    label="Groq",
    default_base_url="https://api.groq.com/openai/v1",
    max_tokens_field="max_completion_tokens",
    asks_for_usage=False,
    returns_thinking=False,
    cache=prompt_cache.GROQ,
    schemas=derived_schemas.OPENAI_STRICT,
)


class Groq(OpenAIChat):
    """The wire format of Groq."""

    def __init__(self) -> None:
        super().__init__(GROQ)

    def thinking_options(self, call: ModelCall, effort: ThinkingEffort) -> dict[str, JSON]:
        options = super().thinking_options(call, effort)
        # Left to itself it writes thinking into the answer; OpenAI's open models do it apart and know no format.
        if effort != "off" and "gpt-oss" not in call.model.name:
            options["reasoning_format"] = "parsed"
        return options
