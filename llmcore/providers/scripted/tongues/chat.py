"""OpenAI Chat Completions, as the many servers speak it that are like OpenAI's."""

from __future__ import annotations

from collections.abc import Iterator

from llmcore.messages import JSON
from llmcore.providers.scripted.tongues.base import CREATED, SpokenCall, Tongue, Utterance, event

ERROR_TYPES = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


class ChatTongue(Tongue):
    """Chat Completions. Thinking is said in the field `thinking_field`."""

    def __init__(self, thinking_field: str = "reasoning_content") -> None:
        self.thinking_field = thinking_field

    def hears(self, path: str) -> bool:
        return path.endswith("/chat/completions")

    def understand(self, path: str, body: dict[str, JSON]) -> dict[str, JSON]:
        return body

    def whole(self, said: Utterance) -> JSON:
        message: dict[str, JSON] = {"role": "assistant", "content": said.text or None, "refusal": None}
        if said.thinking:
            message[self.thinking_field] = said.thinking
        if said.calls:
            message["tool_calls"] = [call_json(call, call.arguments) for call in said.calls]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": said.finish}
        answer = {**head(said), "object": "chat.completion", "choices": [choice]}
        return {**answer, "usage": said.usage} if said.usage else answer

    def pieces(self, said: Utterance) -> Iterator[bytes]:
        yield from (event(self._chunk(said, delta)) for delta in self._deltas(said))

    def _deltas(self, said: Utterance) -> Iterator[dict[str, JSON]]:
        yield {"role": "assistant", "content": ""}
        for piece in said.pieces(said.thinking):
            yield {"content": None, self.thinking_field: piece}
        for piece in said.pieces(said.text):
            yield {"content": piece}
        for index, call in enumerate(said.calls):
            yield {"tool_calls": [{"index": index, **call_json(call, "")}]}
            for piece in said.pieces(call.arguments):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    def _chunk(self, said: Utterance, delta: dict[str, JSON], finish_reason: str | None = None) -> dict[str, JSON]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        chunk = {**head(said), "object": "chat.completion.chunk", "choices": [choice]}
        return {**chunk, "usage": None} if said.wants_usage else chunk

    def ending(self, said: Utterance) -> Iterator[bytes]:
        """The finish reason, the usage where the request wants it, and the mark of the end."""
        yield event(self._chunk(said, {}, said.finish))
        if said.wants_usage and said.usage:
            yield event({**head(said), "object": "chat.completion.chunk", "choices": [], "usage": said.usage})
        yield b"data: [DONE]\n\n"

    def error(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> JSON:
        default = ("invalid_request_error", None) if status < 500 else ("server_error", None)
        kind, usual_code = ERROR_TYPES.get(status, default)
        return {"error": {"message": message, "type": kind, "param": param, "code": code or usual_code}}


def head(said: Utterance) -> dict[str, JSON]:
    return {"id": f"chatcmpl-{said.seed[:28]}", "created": CREATED, "model": said.model}


def call_json(call: SpokenCall, arguments: str) -> dict[str, JSON]:
    identity = {"id": call.id} if call.id is not None else {}
    return {**identity, "type": "function", "function": {"name": call.name, "arguments": arguments}}
