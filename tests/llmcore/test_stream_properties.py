"""Whatever bytes come, however they are cut: the same answer, and never an exception."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from llmcore.messages import Delta, ModelResponse
from llmcore.providers.base import ModelCall, WireReply
from llmcore.providers.registry import adapter_for
from tests.llmcore.voices import CITY, CLOCK, WIRES, Said, Voice, call_to

ANSWERS = (
    Said(text="Zürich € 😀 is nice.", thinking="Hm … ok"),
    Said(text="<think>\nlet me see</think>\n\nfine"),
    Said(
        text="x",
        calls=(("c1", "get_weather", {"city": "Ørsta ☃"}), ("", "get_time", {}), ("c1", "get_weather", {"city": "b"})),
        finish="tool_calls",
    ),
    Said(thinking="and so on", finish="length"),
)
NAMES = (
    *("choices", "delta", "message", "content", "tool_calls", "function", "name", "arguments", "id", "index"),
    *("finish_reason", "usage", "error", "code", "prompt_tokens", "total_tokens", "prompt_tokens_details"),
    *("cached_tokens", "reasoning", "refusal", "done", "done_reason", "thinking", "function_call", "provider"),
    *("detail", "metadata", "raw", "innererror", "status", "type", "text", "object", "reasoning_details", "details"),
    *("content_block", "partial_json", "signature", "input", "stop_reason", "stop_details", "citations", "block"),
    *("output", "item", "output_index", "response", "summary", "encrypted_content", "call_id", "incomplete_details"),
    *("candidates", "parts", "functionCall", "args", "thoughtSignature", "finishReason", "usageMetadata", "thought"),
    *("promptFeedback", "blockReason", "promptTokenCount", "retryDelay", "reason", "x_groq", "summary_index"),
)
FIELDS = st.sampled_from(NAMES)
# Words that decide how an object is read.
WORDS = st.sampled_from(
    (
        *("message_start", "content_block_start", "content_block_delta", "message_delta", "message_stop", "error"),
        *("text", "thinking", "tool_use", "text_delta", "thinking_delta", "signature_delta", "input_json_delta"),
        *("response.output_item.added", "response.output_item.done", "response.completed", "response.failed"),
        *("response.output_text.delta", "response.function_call_arguments.delta", "response.incomplete"),
        *("function_call", "message", "reasoning", "STOP", "SAFETY", "stop", "end_turn", "reasoning.text"),
    )
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=5),
    max_leaves=20,
)


def call_of(voice: Voice, inline_think: Any = None) -> ModelCall:
    return call_to(voice, "http://127.0.0.1", tools=(CITY, CLOCK), model={"inline_think": inline_think})


def read(voice: Voice, chunks: Sequence[bytes], inline_think: Any = None) -> tuple[ModelResponse, list[Delta]]:
    call = call_of(voice, inline_think)
    decoder = adapter_for(voice.adapter).stream_decoder(call)
    deltas = [delta for chunk in chunks for delta in decoder.feed(chunk)]
    return decoder.finish(), deltas


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def comparable(response: ModelResponse) -> Any:
    """The response with its error as a value: two errors are never equal."""
    return replace(response, error=None), response.error and response.error.to_json()


def spoken(deltas: Sequence[Delta], kind: str) -> str:
    return "".join(delta.text for delta in deltas if delta.kind == kind)


@pytest.mark.parametrize("voice", WIRES, ids=lambda voice: voice.adapter)
@given(said=st.sampled_from(ANSWERS), places=st.lists(st.integers(0, 10_000), max_size=40), crlf=st.booleans())
@settings(max_examples=60)
def test_a_stream_may_be_cut_anywhere(voice: Voice, said: Said, places: list[int], crlf: bool) -> None:
    data = b"".join(voice.pieces(said))
    data = data.replace(b"\n", b"\r\n") if crlf else data
    for inline_think in (None, "tags", "prefilled"):
        whole, whole_deltas = read(voice, [data], inline_think)
        pieces, deltas = read(voice, cut(data, places), inline_think)

        assert comparable(pieces) == comparable(whole)
        for kind in ("text", "thinking", "tool_call"):
            assert spoken(deltas, kind) == spoken(whole_deltas, kind)


@pytest.mark.parametrize("voice", WIRES, ids=lambda voice: voice.adapter)
@given(said=st.sampled_from(ANSWERS), end=st.integers(0, 10_000))
@settings(max_examples=50)
def test_a_stream_may_end_anywhere(voice: Voice, said: Said, end: int) -> None:
    data = b"".join(voice.pieces(said))
    whole, _ = read(voice, [data])
    part, _ = read(voice, [data[: end % (len(data) + 1)]])

    assert whole.text.startswith(part.text)
    assert whole.thinking.startswith(part.thinking)
    assert part.error is not None or part.message == whole.message
    if part.error is not None:
        assert not any(call.executable for call in part.tool_calls)


@pytest.mark.parametrize("voice", WIRES, ids=lambda voice: voice.adapter)
@given(values=st.lists(json_values, max_size=6), status=st.sampled_from([200, 201, 302, 400, 401, 429, 500, 529]))
@example(values=[{"type": {}, "response": {}}], status=200)
@settings(max_examples=60)
def test_no_json_upsets_an_adapter(voice: Voice, values: list[Any], status: int) -> None:
    call = call_of(voice)
    adapter = adapter_for(voice.adapter)
    for value in values:
        body = json.dumps(value).encode()
        reply = WireReply(status=status, headers={"content-type": "application/json"}, body=body)
        response = adapter.decode(reply, call)
        assert json.dumps(response.message.json)
        assert response.error is None or response.error.message
    frames = [json.dumps(value).encode() + b"\n" for value in values]
    if voice.stream_type == "text/event-stream":
        frames = [b"data: " + frame + b"\n" for frame in frames]
    response, _ = read(voice, frames)
    again, _ = read(voice, [b"".join(frames)])
    assert comparable(response) == comparable(again)


@pytest.mark.parametrize("voice", WIRES, ids=lambda voice: voice.adapter)
@given(
    chunks=st.lists(
        st.binary(max_size=60) | st.sampled_from([b"data: ", b"\n\n", b"\r", b"{", b"error: "]), max_size=12
    )
)
@settings(max_examples=60)
def test_no_bytes_upset_an_adapter(voice: Voice, chunks: list[bytes]) -> None:
    for inline_think in (None, "tags", "prefilled"):
        response, _ = read(voice, chunks, inline_think)
        assert response.error is not None or response.message.parts or response.tool_calls
