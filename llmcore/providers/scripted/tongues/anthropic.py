"""Anthropic Messages, with thinking that is signed and has to come back as it was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from llmcore.messages import JSON
from llmcore.providers.scripted.check import Refused
from llmcore.providers.scripted.tongues.base import SpokenCall, Tongue, Utterance, event, signature_of

FINISH = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
CHOICES = {"any": "required", "none": "none", "auto": "auto"}
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class AnthropicTongue(Tongue):
    """The Messages API."""

    def hears(self, path: str) -> bool:
        return path.endswith("/messages")

    def understand(self, path: str, body: dict[str, JSON]) -> dict[str, JSON]:
        if not isinstance(body.get("max_tokens"), int):
            raise Refused(400, "max_tokens: Field required", param="max_tokens")
        marks = sum(block.get("cache_control") is not None for block in all_blocks(body))
        if marks + ("cache_control" in body) > 4:
            raise Refused(400, f"A maximum of 4 blocks with cache_control may be provided. Found {marks}.")
        messages: list[JSON] = [{"role": "system", "content": block["text"]} for block in blocks(body.get("system"))]
        for message in body.get("messages") or ():
            messages.extend(understood(message))
        tools = [{"function": {"name": tool["name"]}} for tool in body.get("tools") or ()]
        asked = {"model": body.get("model"), "messages": messages, "stream": body.get("stream")}
        if "tools" in body:
            asked["tools"] = tools
        if choice := body.get("tool_choice"):
            asked["tool_choice"] = CHOICES.get(choice["type"], choice["type"])
        off = (body.get("thinking") or {}).get("type") == "disabled"
        return {**asked, "max_tokens": body["max_tokens"], "reasoning_effort": "none" if off else None}

    def whole(self, said: Utterance) -> JSON:
        return {
            **frame(said),
            "content": [finished(block, text) for block, text in content(said)],
            "stop_reason": FINISH.get(said.finish, said.finish),
            **({"usage": usage(said)} if said.usage else {}),
        }

    def pieces(self, said: Utterance) -> Iterator[bytes]:
        started = {name: value for name, value in usage(said).items() if name != "output_tokens_details"}
        first = {**frame(said), **({"usage": {**started, "output_tokens": 1}} if said.usage else {})}
        yield event({"type": "message_start", "message": first}, "message_start")
        for index, (block, text) in enumerate(content(said)):
            yield event({"type": "content_block_start", "index": index, "content_block": block}, "content_block_start")
            for delta in deltas(said, block, text):
                yield event({"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta")
            yield event({"type": "content_block_stop", "index": index}, "content_block_stop")

    def ending(self, said: Utterance) -> Iterator[bytes]:
        delta = {"stop_reason": FINISH.get(said.finish, said.finish), "stop_sequence": None}
        counted = {"usage": usage(said)} if said.usage else {}
        yield event({"type": "message_delta", "delta": delta, **counted}, "message_delta")
        yield event({"type": "message_stop"}, "message_stop")

    def error(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> JSON:
        kind = code or ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}}

    def error_piece(self, error: JSON) -> bytes:
        return event({"type": "error", **error}, "error")


def frame(said: Utterance) -> dict[str, JSON]:
    answer = {"id": f"msg_{said.seed[:24]}", "type": "message", "role": "assistant", "model": said.model}
    return {**answer, "content": [], "stop_reason": None, "stop_sequence": None}


def content(said: Utterance) -> Iterator[tuple[dict[str, JSON], str]]:
    """The blocks as they begin, each with the text that it is going to get."""
    if said.thinking:
        yield {"type": "thinking", "thinking": "", "signature": ""}, said.thinking
    if said.text:
        yield {"type": "text", "text": ""}, said.text
    for call in said.calls:
        identity = {"id": call.id} if call.id else {}
        yield {"type": "tool_use", **identity, "name": call.name, "input": {}}, call.arguments


def finished(block: dict[str, JSON], text: str) -> dict[str, JSON]:
    match block["type"]:
        case "thinking":
            return {**block, "thinking": text, "signature": signature_of(text)}
        case "text":
            return {**block, "text": text}
    return {**block, "input": SpokenCall(id=None, name="", arguments=text).value}


def deltas(said: Utterance, block: dict[str, JSON], text: str) -> Iterator[dict[str, JSON]]:
    match block["type"]:
        case "thinking":
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in said.pieces(text))
            yield {"type": "signature_delta", "signature": signature_of(text)}
        case "text":
            yield from ({"type": "text_delta", "text": piece} for piece in said.pieces(text))
        case _:
            yield {"type": "input_json_delta", "partial_json": ""}
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in said.pieces(text))


def usage(said: Utterance) -> dict[str, JSON]:
    """Its input tokens are those that were neither read from a cache nor written to one."""
    cached = said.count("prompt_tokens_details", "cached_tokens") or 0
    counts: dict[str, JSON] = {
        "input_tokens": (said.count("prompt_tokens") or 0) - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": said.count("completion_tokens"),
    }
    if thought := said.count("completion_tokens_details", "reasoning_tokens"):
        counts["output_tokens_details"] = {"thinking_tokens": thought}
    return counts


def understood(message: dict[str, JSON]) -> Iterator[JSON]:
    """A message as Chat Completions has it; the results of tools are messages of their own there."""
    found = blocks(message.get("content"))
    if not found:
        raise Refused(400, "messages: all messages must have non-empty content", param="messages")
    calls = []
    for block in found:
        kind = block.get("type")
        if kind == "text" and not str(block.get("text")).strip():
            raise Refused(400, "messages: text content blocks must be non-empty", param="messages")
        if kind == "thinking" and block.get("signature") != signature_of(block.get("thinking", "")):
            raise Refused(400, "messages: Invalid `signature` in `thinking` block", param="messages")
        if kind == "tool_result":
            yield {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": block.get("content")}
        elif kind == "tool_use":
            calls.append({"id": block.get("id"), "function": {"name": block.get("name")}})
    texts = [block for block in found if block.get("type") in ("text", "image")]
    if message.get("role") == "assistant" or texts:
        yield {"role": message.get("role"), "content": texts, **({"tool_calls": calls} if calls else {})}


def blocks(value: JSON) -> list[dict[str, JSON]]:
    if isinstance(value, str):
        return [{"type": "text", "text": value}] if value else []
    return [block for block in value if isinstance(block, dict)] if isinstance(value, list) else []


def all_blocks(body: dict[str, JSON]) -> Iterable[dict[str, JSON]]:
    yield from blocks(body.get("tools"))
    yield from blocks(body.get("system"))
    for message in body.get("messages") or ():
        yield from blocks(message.get("content"))
