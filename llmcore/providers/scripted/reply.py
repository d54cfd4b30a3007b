"""What the scripted model answers to one request, with a plausible usage, before a wire format says it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from llmcore.messages import JSON
from llmcore.providers.scripted.scenario import Turn
from llmcore.providers.scripted.tongues.base import SpokenCall, Tongue, Utterance

CHARS_PER_TOKEN = 4
# Models count a picture by its size in pixels, not by its bytes.
TOKENS_PER_PICTURE = 1_000
PICTURE = re.compile(r'(?:data:image/[a-z]+;base64,|"data":")[A-Za-z0-9+/=]{64,}')
# OpenAI caches prompts of at least 1,024 tokens, in steps of 128.
CACHE_MINIMUM = 1024
CACHE_STEP = 128


def error_of(turn: Turn, tongue: Tongue) -> JSON:
    """The error body of a turn; an object that has no `error` key of its own is put under one."""
    if isinstance(turn.error, Mapping):
        return dict(turn.error) if "error" in turn.error else {"error": dict(turn.error)}
    return tongue.error(turn.status, turn.error or f"The scripted model answers with status {turn.status}.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """One answer to one request: the turn, cut to the request's output limit, and the request it answers."""

    turn: Turn
    model: str
    request: Mapping[str, JSON]
    seed: str

    @classmethod
    def to(cls, request: Mapping[str, JSON], body: bytes, turn: Turn) -> Reply:
        """Answer a request in the shape of Chat Completions, which came as `body`.

        Identical bodies get identical answers: all ids come from the body's digest.
        """
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

    def said(self) -> Utterance:
        return Utterance(
            model=self.model,
            seed=self.seed,
            text=self.turn.text,
            thinking=self.turn.thinking,
            calls=tuple(self.calls()),
            finish=self.finish_reason,
            usage=self.usage(),
            chunk_chars=self.turn.chunk_chars,
            wants_usage=bool((self.request.get("stream_options") or {}).get("include_usage")),
        )

    def calls(self) -> Iterator[SpokenCall]:
        for index, call in enumerate(self.turn.tool_calls):
            made_up = hashlib.sha256(f"{self.seed}{index}".encode()).hexdigest()[:24]
            arguments = call.get("arguments", {})
            yield SpokenCall(
                id=call.get("id", f"call_{made_up}"),
                name=call["name"],
                arguments=arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False),
            )

    def usage(self) -> dict[str, JSON]:
        """Usage as OpenAI reports it; `{}` where the turn reports none."""
        if self.turn.usage is not None:
            return dict(self.turn.usage)
        prompt = tokens_of(self.request["messages"]) + tokens_of(self.request.get("tools"))
        thought = len(self.turn.thinking)
        said = len(self.turn.text) + sum(len(call.name) + len(call.arguments) for call in self.calls())
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
    text, pictures = PICTURE.subn("", json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    return len(text) // CHARS_PER_TOKEN + pictures * TOKENS_PER_PICTURE


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
