"""The shapes of OpenAI's Chat Completions answers: whole, streamed, errors, and a plausible usage."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from llmcore.messages import JSON
from llmcore.providers.scripted.scenario import Turn

CREATED = 1_764_000_000
CHARS_PER_TOKEN = 4
# OpenAI caches prompts of at least 1,024 tokens, in steps of 128.
CACHE_MINIMUM = 1024
CACHE_STEP = 128
ERROR_TYPES = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


def error_body(status: int, message: str, *, param: str | None = None, code: str | None = None) -> dict[str, JSON]:
    default = ("invalid_request_error", None) if status < 500 else ("server_error", None)
    kind, usual_code = ERROR_TYPES.get(status, default)
    return {"error": {"message": message, "type": kind, "param": param, "code": code or usual_code}}


def error_of(turn: Turn) -> dict[str, JSON]:
    """The error body of a turn; an object that has no `error` key of its own is put under one."""
    if isinstance(turn.error, Mapping):
        return dict(turn.error) if "error" in turn.error else {"error": dict(turn.error)}
    return error_body(turn.status, turn.error or f"The scripted model answers with status {turn.status}.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """One answer to one request: the turn, cut to the request's output limit, and the request it answers."""

    turn: Turn
    model: str
    request: Mapping[str, JSON]
    seed: str

    @classmethod
    def to(cls, request: Mapping[str, JSON], body: bytes, turn: Turn) -> Reply:
        """Identical bodies get identical answers: all ids come from the body's digest."""
        if request.get("reasoning_effort") == "none":
            turn = replace(turn, thinking="")
        limit = request.get("max_completion_tokens") or request.get("max_tokens")
        if isinstance(limit, int) and turn.finish_reason is None:
            turn = cut_to(turn, limit * CHARS_PER_TOKEN)
        if turn.cut_after_chars is not None and request.get("stream"):
            turn = cut_to(turn, turn.cut_after_chars)
        return cls(turn=turn, model=str(request["model"]), request=request, seed=hashlib.sha256(body).hexdigest())

    @property
    def finish_reason(self) -> str:
        if self.turn.finish_reason is not None:
            return self.turn.finish_reason
        return "tool_calls" if self.turn.tool_calls else "stop"

    @property
    def head(self) -> dict[str, JSON]:
        return {"id": f"chatcmpl-{self.seed[:28]}", "created": CREATED, "model": self.model}

    def calls(self) -> Iterator[tuple[dict[str, JSON], str]]:
        """Each call without its arguments, and the arguments' text."""
        for index, call in enumerate(self.turn.tool_calls):
            made_up = hashlib.sha256(f"{self.seed}{index}".encode()).hexdigest()[:24]
            call_id = call.get("id", f"call_{made_up}")
            head = {"id": call_id} if call_id is not None else {}
            arguments = call.get("arguments", {})
            yield (
                {**head, "type": "function", "function": {"name": call["name"]}},
                arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False),
            )

    def whole(self) -> dict[str, JSON]:
        """The unstreamed answer."""
        message: dict[str, JSON] = {"role": "assistant", "content": self.turn.text or None, "refusal": None}
        if self.turn.thinking:
            message["reasoning_content"] = self.turn.thinking
        calls = [{**call, "function": {**call["function"], "arguments": arguments}} for call, arguments in self.calls()]
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self.finish_reason}
        answer = {**self.head, "object": "chat.completion", "choices": [choice]}
        usage = self.usage()
        return {**answer, "usage": usage} if usage else answer

    def deltas(self) -> Iterator[dict[str, JSON]]:
        """The streamed answer's deltas."""
        size = max(self.turn.chunk_chars, 1)
        yield {"role": "assistant", "content": ""}
        for piece in pieces(self.turn.thinking, size):
            yield {"content": None, "reasoning_content": piece}
        for piece in pieces(self.turn.text, size):
            yield {"content": piece}
        for index, (call, arguments) in enumerate(self.calls()):
            function = {**call["function"], "arguments": ""}
            yield {"tool_calls": [{"index": index, **call, "function": function}]}
            for piece in pieces(arguments, size):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    def chunk(self, delta: dict[str, JSON], finish_reason: str | None = None) -> dict[str, JSON]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        chunk = {**self.head, "object": "chat.completion.chunk", "choices": [choice]}
        return {**chunk, "usage": None} if self.reports_usage else chunk

    def last_chunks(self) -> Iterator[dict[str, JSON]]:
        """What follows the deltas: the finish reason, and the usage where the request wants it."""
        yield self.chunk({}, self.finish_reason)
        usage = self.usage()
        if self.reports_usage and usage:
            yield {**self.head, "object": "chat.completion.chunk", "choices": [], "usage": usage}

    @property
    def reports_usage(self) -> bool:
        return bool((self.request.get("stream_options") or {}).get("include_usage"))

    def usage(self) -> dict[str, JSON]:
        """Usage as OpenAI reports it; `{}` where the turn reports none."""
        if self.turn.usage is not None:
            return dict(self.turn.usage)
        prompt = tokens_of(self.request["messages"]) + tokens_of(self.request.get("tools"))
        thought = len(self.turn.thinking)
        said = len(self.turn.text) + sum(len(call["function"]["name"]) + len(args) for call, args in self.calls())
        reasoning = -(-thought // CHARS_PER_TOKEN)
        completion = max(-(-(thought + said) // CHARS_PER_TOKEN), 1)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached_tokens(self.request), "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": reasoning, "audio_tokens": 0},
        }


def cached_tokens(request: Mapping[str, JSON]) -> int:
    """The prompt of the round before this one: tools, and all that came before the last assistant message."""
    messages = request["messages"]
    last = max((i for i, message in enumerate(messages) if message["role"] == "assistant"), default=None)
    if last is None:
        return 0
    shared = tokens_of(messages[:last]) + tokens_of(request.get("tools"))
    return shared - shared % CACHE_STEP if shared >= CACHE_MINIMUM else 0


def tokens_of(value: JSON) -> int:
    if not value:
        return 0
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":"))) // CHARS_PER_TOKEN


def cut_to(turn: Turn, chars: int) -> Turn:
    """What a model says that may say no more than `chars` characters: thinking first, then text, then calls."""
    thinking, text = turn.thinking[:chars], turn.text[: max(chars - len(turn.thinking), 0)]
    left = chars - len(turn.thinking) - len(turn.text)
    calls = []
    for call in turn.tool_calls:
        arguments = call.get("arguments", {})
        spelled = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        left -= len(call["name"])
        if left > 0:
            calls.append({**call, "arguments": spelled[:left]})
        left -= len(spelled)
    if left >= 0:
        return turn
    return replace(turn, thinking=thinking, text=text, tool_calls=tuple(calls), finish_reason="length")


def pieces(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]
