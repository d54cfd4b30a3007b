"""Maps the providers' finish reasons to ours."""

from __future__ import annotations

from collections.abc import Mapping

from llmcore.errors import ErrorKind
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
# Source: the official SDK. The model's own mistakes are told from failures of the service by `KIND_OF_FINISH`.
GEMINI_REASONS: Mapping[str, FinishReason] = {
    "STOP": FinishReason.STOP,
    "MAX_TOKENS": FinishReason.LENGTH,
    **dict.fromkeys(
        (
            *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"),
            *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
        ),
        FinishReason.CONTENT_FILTER,
    ),
    **dict.fromkeys(
        (
            *("LANGUAGE", "OTHER", "NO_IMAGE", "IMAGE_OTHER"),
            *("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"),
        ),
        FinishReason.ERROR,
    ),
}
# Source: the official SDK. Raising max_tokens does not help against a full window, but the answer is cut all the same.
ANTHROPIC_REASONS: Mapping[str, FinishReason] = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL_CALLS,
    "pause_turn": FinishReason.PAUSE,
    "compaction": FinishReason.PAUSE,
    "refusal": FinishReason.CONTENT_FILTER,
}
# `status` of OpenAI Responses, or the reason why it is incomplete.
RESPONSES_REASONS: Mapping[str, FinishReason] = {
    "completed": FinishReason.STOP,
    "incomplete": FinishReason.LENGTH,
    "max_output_tokens": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "failed": FinishReason.ERROR,
    "cancelled": FinishReason.ERROR,
}
KIND_OF_FINISH: Mapping[str, ErrorKind] = {
    **dict.fromkeys(
        ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"), ErrorKind.MALFORMED_TOOL_CALL
    ),
    "insufficient_system_resource": ErrorKind.OVERLOADED,
}

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
