"""OpenRouter: Chat Completions in front of many services, with signed thinking and explicit cache boundaries."""

from __future__ import annotations

from collections.abc import Sequence

from llmcore.configuration import ThinkingEffort
from llmcore.messages import JSON, Message
from llmcore.providers import derived_schemas
from llmcore.providers.base import ModelCall, WireRequest
from llmcore.providers.cache_marks import CACHE_MARK, at_most
from llmcore.providers.openai_chat import Dialect, OpenAIChat, content_part

OPENROUTER = Dialect(
    name="openrouter",
    label="OpenRouter",
    default_base_url="https://openrouter.ai/api/v1",
    # The strictest rules among the services behind it.
    schemas=derived_schemas.OPENAI_STRICT,
)
# The services behind it that cache only what is marked.
CACHE_WHERE_MARKED = ("anthropic/", "~anthropic/", "google/gemini")
MAX_MARKS = 4


class OpenRouter(OpenAIChat):
    """The wire format of OpenRouter."""

    def __init__(self) -> None:
        super().__init__(OPENROUTER)

    def content(self, message: Message, call: ModelCall) -> JSON:
        marked = any(part.cache_boundary for part in message.parts)
        if not marked or not call.model.name.startswith(CACHE_WHERE_MARKED):
            return super().content(message, call)
        parts = [part for part in message.parts if part.kind in ("text", "image")]
        return [{**content_part(part, call), **(CACHE_MARK if part.cache_boundary else {})} for part in parts]

    def frame(self, call: ModelCall, units: Sequence[bytes]) -> WireRequest:
        return super().frame(call, at_most(MAX_MARKS, units))

    def thinking_options(self, call: ModelCall, effort: ThinkingEffort) -> dict[str, JSON]:
        return {"reasoning": {"effort": "none" if effort == "off" else effort}}
