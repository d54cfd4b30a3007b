"""Ollama's own API: lines of JSON, and calls that come whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmcore.messages import JSON
from llmcore.providers.scripted.tongues.base import SpokenCall, Tongue, Utterance, encoded

CREATED_AT = "2025-11-24T16:00:00Z"


class OllamaTongue(Tongue):
    """POST /api/chat. It streams unless it is told not to."""

    stream_type = "application/x-ndjson"

    def hears(self, path: str) -> bool:
        return path.endswith("/api/chat")

    def understand(self, path: str, body: dict[str, JSON]) -> dict[str, JSON]:
        options = body.get("options") or {}
        asked: dict[str, JSON] = {name: body[name] for name in ("model", "tools") if name in body}
        asked["messages"] = list(with_ids(body.get("messages") or []))
        asked["stream"] = body.get("stream", True)
        asked["max_tokens"] = options.get("num_predict")
        asked["reasoning_effort"] = "none" if body.get("think") is False else None
        return asked

    def whole(self, said: Utterance) -> JSON:
        return {**line(said, said.text, said.thinking, said.calls), **last(said)}

    def pieces(self, said: Utterance) -> Iterator[bytes]:
        for piece in said.pieces(said.thinking):
            yield encoded(line(said, thinking=piece)) + b"\n"
        for piece in said.pieces(said.text):
            yield encoded(line(said, piece)) + b"\n"
        for call in said.calls:
            yield encoded(line(said, calls=[call])) + b"\n"

    def ending(self, said: Utterance) -> Iterator[bytes]:
        yield encoded({**line(said), **last(said)}) + b"\n"

    def error(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> JSON:
        return {"error": message}

    def models(self, names: list[str]) -> JSON:
        return {"models": [{"name": name, "model": name} for name in names]}

    def error_piece(self, error: JSON) -> bytes:
        return encoded(error) + b"\n"


def line(said: Utterance, text: str = "", thinking: str = "", calls: Sequence[SpokenCall] = ()) -> dict[str, JSON]:
    message: dict[str, JSON] = {"role": "assistant", "content": text}
    if thinking:
        message["thinking"] = thinking
    if calls:
        message["tool_calls"] = [
            {**({"id": call.id} if call.id else {}), "function": {"name": call.name, "arguments": call.value}}
            for call in calls
        ]
    return {"model": said.model, "created_at": CREATED_AT, "message": message, "done": False}


def last(said: Utterance) -> dict[str, JSON]:
    reason = "stop" if said.finish == "tool_calls" else said.finish
    counts = {"prompt_eval_count": said.count("prompt_tokens"), "eval_count": said.count("completion_tokens")}
    return {"done": True, "done_reason": reason, **{name: value for name, value in counts.items() if value is not None}}


def with_ids(messages: list[JSON]) -> Iterator[JSON]:
    """Its ids are optional: a result without one answers the first call that has none yet."""
    pending: list[str] = []
    for number, message in enumerate(messages):
        calls = message.get("tool_calls") or ()
        if message.get("role") == "tool":
            given = message.get("tool_call_id")
            identity = given if given in pending else (pending[0] if pending and not given else given)
            if identity in pending:
                pending.remove(identity)
            yield {**message, "tool_call_id": identity}
        else:
            named = [{**call, "id": call.get("id") or f"{number}.{index}"} for index, call in enumerate(calls)]
            pending = [call["id"] for call in named]
            yield {**message, **({"tool_calls": named} if named else {})}
