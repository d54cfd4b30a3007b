"""How the services behind the adapters speak: one answer, in each wire format, whole and streamed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llmcore.configuration import LanguageModel, Parameters, Provider, Secret
from llmcore.management.wire_check.server import Script
from llmcore.messages import Message, ToolSpec
from llmcore.metering.client import ModelClient
from llmcore.providers.base import ModelCall
from llmcore.providers.scripted.tongues.anthropic import AnthropicTongue
from llmcore.providers.scripted.tongues.base import SpokenCall, Tongue, Utterance
from llmcore.providers.scripted.tongues.chat import ChatTongue
from llmcore.providers.scripted.tongues.gemini import GeminiTongue
from llmcore.providers.scripted.tongues.ollama import OllamaTongue
from llmcore.providers.scripted.tongues.responses import ResponsesTongue

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


@dataclass(frozen=True, kw_only=True)
class Voice:
    """A service that speaks one wire format, in the words of the shipped scripted model.

    `raw` are its words for the finish reasons. A history is told by `turns`, the list of messages in a request's body.
    """

    adapter: str
    tongue: Tongue
    path: str
    base: str = "/v1"
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    turns: str = "messages"
    raw: Mapping[str, str] = field(default_factory=dict)
    knows_ids: bool = True
    usage_up_front: bool = False

    @property
    def stream_type(self) -> str:
        return self.tongue.stream_type.partition(";")[0]

    def path_of(self, *, stream: bool) -> str:
        return self.path.format(method="streamGenerateContent?alt=sse" if stream else "generateContent")

    def whole(self, said: Said) -> Any:
        """The body of an unstreamed answer."""
        return self.tongue.whole(utterance(said))

    def pieces(self, said: Said) -> list[bytes]:
        """The network writes of a streamed answer."""
        spoken = utterance(said)
        return [*self.tongue.pieces(spoken), *self.tongue.ending(spoken)]

    def ending(self, said: Said) -> int:
        """How many of the pieces follow the last word."""
        return len(list(self.tongue.ending(utterance(said))))

    def error_frame(self, message: str) -> bytes:
        """An error in the middle of a stream."""
        return self.tongue.error_piece(self.tongue.error(503, message))

    def script(self, said: Said, *, stream: bool, **options: Any) -> Script:
        if stream:
            headers = {"content-type": self.stream_type}
            return Script(headers=headers, writes=self.pieces(said), whole=False, **options)
        body = json.dumps(self.whole(said)).encode()
        return Script(headers={"content-type": "application/json"}, writes=[body], **options)


def utterance(said: Said) -> Utterance:
    longest = max(len(said.text), len(said.thinking), *(len(json.dumps(call[2])) for call in said.calls), 2)
    calls = (
        SpokenCall(id=identity or None, name=name, arguments=json.dumps(args)) for identity, name, args in said.calls
    )
    return Utterance(
        model="test-model-0626",
        seed="0123456789abcdef" * 4,
        text=said.text,
        thinking=said.thinking,
        calls=tuple(calls),
        finish=said.finish,
        usage=USAGE,
        # In about two halves.
        chunk_chars=longest // 2,
    )


USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 8,
    "total_tokens": 28,
    "prompt_tokens_details": {"cached_tokens": 12},
    "completion_tokens_details": {"reasoning_tokens": 3},
}
CHAT = "/v1/chat/completions"
VOICES = (
    Voice(adapter="openai_compat", tongue=ChatTongue(), path=CHAT),
    Voice(adapter="openai_chat", tongue=ChatTongue(), path=CHAT),
    Voice(
        adapter="azure_openai",
        tongue=ChatTongue(),
        path="/openai/v1/chat/completions",
        base="",
        key_header="api-key",
        key_prefix="",
    ),
    Voice(adapter="openrouter", tongue=ChatTongue("reasoning"), path=CHAT),
    Voice(adapter="mistral", tongue=ChatTongue(), path=CHAT),
    Voice(adapter="groq", tongue=ChatTongue("reasoning"), path=CHAT),
    Voice(adapter="deepseek", tongue=ChatTongue(), path=CHAT),
    Voice(
        adapter="openai_responses",
        tongue=ResponsesTongue(),
        path="/v1/responses",
        turns="input",
        raw={"stop": "completed", "tool_calls": "completed", "length": "max_output_tokens"},
    ),
    Voice(
        adapter="anthropic",
        tongue=AnthropicTongue(),
        path="/v1/messages",
        key_header="x-api-key",
        key_prefix="",
        raw={"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"},
        usage_up_front=True,
    ),
    Voice(
        adapter="gemini",
        tongue=GeminiTongue(),
        path="/v1beta/models/test-model:{method}",
        base="/v1beta",
        key_header="x-goog-api-key",
        key_prefix="",
        turns="contents",
        raw={"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS"},
    ),
    Voice(adapter="ollama", tongue=OllamaTongue(), path="/api/chat", base="", raw={"tool_calls": "stop"}),
)

# One voice for each way of reading answers: the dialects of Chat Completions share one.
_SHARED = ("openai_chat", "azure_openai", "mistral", "groq", "deepseek")
WIRES = tuple(voice for voice in VOICES if voice.adapter not in _SHARED)


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
    base_url = origin + voice.base
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
