"""Maps the providers' finish reasons to ours."""

from __future__ import annotations

from collections.abc import Mapping

from llmcore.messages import FinishReason

# Sources: the OpenAI family's SDKs (stop, length, tool_calls, content_filter, function_call), OpenRouter (error),
# Mistral (model_length, error), DeepSeek (insufficient_system_resource), vLLM and SGLang (abort).
OPENAI_REASONS: Mapping[str, FinishReason] = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.CONTENT_FILTER,
    "function_call": FinishReason.TOOL_CALLS,
    "error": FinishReason.ERROR,
    "model_length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "insufficient_system_resource": FinishReason.ERROR,
    "abort": FinishReason.ERROR,
}
# Ollama's others ("load", "unload", "") say nothing about the answer.
OLLAMA_REASONS: Mapping[str, FinishReason] = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}

FINAL = frozenset({FinishReason.LENGTH, FinishReason.CONTENT_FILTER, FinishReason.ERROR, FinishReason.PAUSE})


def settle(raw: str, reasons: Mapping[str, FinishReason], *, has_calls: bool) -> FinishReason:
    """Our reason for the provider's `raw` one ("" = none).

    Several servers say stop beside calls, and tool_calls without any: what there is decides. An unknown word counts as
    stop.
    """
    mapped = reasons.get(raw) or reasons.get(raw.lower()) or FinishReason.STOP
    if mapped in FINAL:
        return mapped
    return FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP
