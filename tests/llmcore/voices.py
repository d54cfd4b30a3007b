"""How the services behind the adapters speak: one answer, in each wire format, whole and streamed."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llmcore.configuration import LanguageModel, Parameters, Provider, Secret
from llmcore.management.wire_check.server import Script
from llmcore.messages import Message, ToolSpec
from llmcore.metering.client import ModelClient
from llmcore.providers.base import ModelCall

KEY = "sk-test-4b1f"
CITY = ToolSpec(
    name="get_weather",
    description="The weather in a city",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
CLOCK = ToolSpec(name="get_time", description="The time", parameters={"type": "object", "properties": {}})
GO = (Message.of("system", "Be brief."), Message.of("user", "Go"))


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a model says, independent of the wire."""

    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    finish: str = "stop"


class Voice(ABC):
    """A service that speaks one wire format."""

    adapter: str
    path: str
    stream_type: str

    @abstractmethod
    def whole(self, said: Said) -> Any:
        """The body of an unstreamed answer."""

    @abstractmethod
    def pieces(self, said: Said) -> list[bytes]:
        """The network writes of a streamed answer."""

    @abstractmethod
    def error_frame(self, message: str) -> bytes:
        """An error in the middle of a stream."""

    def script(self, said: Said, *, stream: bool, **options: Any) -> Script:
        if stream:
            headers = {"content-type": self.stream_type}
            return Script(headers=headers, writes=self.pieces(said), whole=False, **options)
        body = json.dumps(self.whole(said)).encode()
        return Script(headers={"content-type": "application/json"}, writes=[body], **options)


class ChatVoice(Voice):
    path = "/v1/chat/completions"
    stream_type = "text/event-stream"

    def __init__(self, adapter: str) -> None:
        self.adapter = adapter

    def whole(self, said: Said) -> Any:
        message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
        if said.thinking:
            message["reasoning_content"] = said.thinking
        if said.calls:
            message["tool_calls"] = [
                {"id": identity, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
                for identity, name, arguments in said.calls
            ]
        usage = {"prompt_tokens": 20, "completion_tokens": 8, "total_tokens": 28}
        details = {"prompt_tokens_details": {"cached_tokens": 12}, "completion_tokens_details": {"reasoning_tokens": 3}}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": "test-model-0626",
            "choices": [{"index": 0, "message": message, "finish_reason": said.finish}],
            "usage": {**usage, **details},
        }

    def pieces(self, said: Said) -> list[bytes]:
        whole = self.whole(said)
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"reasoning_content": piece} for piece in halves(said.thinking)]
        deltas += [{"content": piece} for piece in halves(said.text)]
        for index, (identity, name, arguments) in enumerate(said.calls):
            head, *tail = halves(json.dumps(arguments))
            function = {"name": name, "arguments": head}
            deltas.append({"tool_calls": [{"index": index, "id": identity, "type": "function", "function": function}]})
            deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in tail]
        chunk = {"id": whole["id"], "object": "chat.completion.chunk", "model": whole["model"], "usage": None}
        chunks = [{**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        chunks.append({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": said.finish}]})
        chunks.append({**chunk, "choices": [], "usage": whole["usage"]})
        return [b"data: " + json.dumps(item).encode() + b"\n\n" for item in chunks] + [b"data: [DONE]\n\n"]

    def error_frame(self, message: str) -> bytes:
        return b"data: " + json.dumps({"error": {"message": message, "code": 503}}).encode() + b"\n\n"


class OllamaVoice(Voice):
    adapter = "ollama"
    path = "/api/chat"
    stream_type = "application/x-ndjson"

    def whole(self, said: Said) -> Any:
        return {**self._line(said.text, said.thinking, said.calls), **self._end(said)}

    def pieces(self, said: Said) -> list[bytes]:
        lines = [self._line("", piece) for piece in halves(said.thinking)]
        lines += [self._line(piece) for piece in halves(said.text)]
        lines += [self._line(calls=[call]) for call in said.calls]
        lines.append({**self._line(), **self._end(said)})
        return [json.dumps(line).encode() + b"\n" for line in lines]

    def error_frame(self, message: str) -> bytes:
        return json.dumps({"error": message}).encode() + b"\n"

    def _line(self, text: str = "", thinking: str = "", calls: Sequence[Any] = ()) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if thinking:
            message["thinking"] = thinking
        if calls:
            message["tool_calls"] = [
                {"id": identity, "function": {"name": name, "arguments": arguments}}
                for identity, name, arguments in calls
            ]
        return {"model": "test-model-0626", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": False}

    def _end(self, said: Said) -> dict[str, Any]:
        reason = "stop" if said.finish == "tool_calls" else said.finish
        return {"done": True, "done_reason": reason, "prompt_eval_count": 20, "eval_count": 8}


def halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]


VOICES = (ChatVoice("openai_compat"), ChatVoice("openai_chat"), OllamaVoice())


def call_to(
    voice: Voice,
    origin: str,
    *,
    stream: bool = True,
    tools: tuple[ToolSpec, ...] = (),
    tool_choice: str = "auto",
    model: dict[str, Any] | None = None,
    response_schema: Any = None,
    provider: dict[str, Any] | None = None,
    **parameters: Any,
) -> ModelCall:
    """A call to the service at `origin`."""
    base_url = origin + voice.path.removesuffix("/chat/completions").removesuffix("/api/chat")
    settings = {"api_key": Secret(KEY), "max_attempts": 1, "allow_private_hosts": True, **(provider or {})}
    return ModelCall(
        provider=Provider(slug="test", name="Test", adapter=voice.adapter, base_url=base_url, **settings),
        model=LanguageModel(name="test-model", **(model or {})),
        parameters=Parameters(stream=stream, **parameters),
        tools=tools,
        tool_choice=tool_choice,
        response_schema=response_schema,
    )


async def ask(client: ModelClient, call: ModelCall, messages: Sequence[Message] = GO, **options: Any) -> Any:
    """Send one call and return its completion."""
    transcript = client.transcript(call, messages)
    return await client.send(call, client.prepare(call, transcript), taken_ids=transcript.call_ids, **options)
