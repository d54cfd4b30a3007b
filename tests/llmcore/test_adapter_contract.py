"""What every adapter promises, held against each of them over a real socket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from llmcore.errors import ConfigurationError, ErrorKind
from llmcore.management.wire_check.server import Script, serve_script
from llmcore.messages import CallProblem, FinishReason, Message, Part, ToolCall
from llmcore.metering.client import ModelClient, open_http
from llmcore.providers.registry import adapter_for, adapters
from llmcore.runs.transcript import tool_message
from tests.llmcore.voices import CITY, CLOCK, GO, KEY, VOICES, WIRES, Said, Voice, ask, call_to

PLAIN = Said(text="Hello, Zürich €.", thinking="A greeting.")
CALLS = Said(
    text="One moment.",
    calls=(("c1", "get_weather", {"city": "Oslo"}), ("c2", "get_weather", {"city": "Rome"}), ("c3", "get_time", {})),
    finish="tool_calls",
)
ERROR_BODIES: list[tuple[int, Any, ErrorKind, bool]] = [
    (400, {"error": {"message": "Unknown parameter: 'x'.", "param": "x"}}, ErrorKind.INVALID_REQUEST, False),
    (400, {"error": "context length exceeded"}, ErrorKind.CONTEXT_LENGTH, False),
    (401, {"error": {"message": "No key", "code": "invalid_api_key"}}, ErrorKind.AUTHENTICATION, False),
    (402, {"error": {"message": "Pay"}}, ErrorKind.QUOTA, False),
    (403, {"message": "Not yours"}, ErrorKind.PERMISSION, False),
    (404, {"error": "model 'x' not found"}, ErrorKind.NOT_FOUND, False),
    (408, "", ErrorKind.TIMEOUT, True),
    (409, {"error": {"message": "Conflict"}}, ErrorKind.SERVER, True),
    (422, {"detail": [{"loc": ["body", "model"], "msg": "field required"}]}, ErrorKind.INVALID_REQUEST, False),
    (429, {"error": {"message": "Slow down", "code": "rate_limit_exceeded"}}, ErrorKind.RATE_LIMIT, True),
    (429, {"error": {"message": "Top up", "code": "insufficient_quota"}}, ErrorKind.QUOTA, False),
    (400, {"error": {"message": "Filtered", "code": "content_filter"}}, ErrorKind.CONTENT_FILTER, False),
    (500, {"error": {"message": "Oops"}}, ErrorKind.SERVER, True),
    (500, "not JSON at all", ErrorKind.SERVER, True),
    (502, "<html><title>502 Bad Gateway</title></html>", ErrorKind.SERVER, True),
    (503, {"error": "server busy"}, ErrorKind.OVERLOADED, True),
    (504, "", ErrorKind.TIMEOUT, True),
    (
        529,
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        ErrorKind.OVERLOADED,
        True,
    ),
    (400, [{"error": {"code": 400, "message": "Bad", "status": "INVALID_ARGUMENT"}}], ErrorKind.INVALID_REQUEST, False),
    (400, {"object": "error", "message": "Bad", "type": "BadRequestError"}, ErrorKind.INVALID_REQUEST, False),
    (301, "", ErrorKind.NOT_FOUND, False),
]


@pytest.fixture(params=VOICES, ids=lambda voice: voice.adapter)
def voice(request: pytest.FixtureRequest) -> Voice:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=WIRES, ids=lambda voice: voice.adapter)
def wire(request: pytest.FixtureRequest) -> Voice:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=[True, False], ids=["streamed", "whole"])
def stream(request: pytest.FixtureRequest) -> bool:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
async def client() -> AsyncIterator[ModelClient]:
    async with open_http() as http:
        yield ModelClient(http=http)


def walk(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """All values in a body, each with the name that it stands under."""
    yield key, value
    for name, inner in (
        value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    ):
        yield from walk(inner, name if isinstance(name, str) else key)


def call_ids(body: Any) -> tuple[list[str | None], list[str | None]]:
    """The ids of the calls in a request, and those of the results."""
    calls: list[str | None] = []
    results: list[str | None] = []
    for _, value in walk(body):
        match value:
            case {"function": {"arguments": _}}:
                calls.append(value["id"])
            case {"type": "function_call"}:
                calls.append(value["call_id"])
            case {"type": "tool_use"}:
                calls.append(value["id"])
            case {"functionCall": call}:
                calls.append(call.get("id"))
            case {"functionResponse": response}:
                results.append(response.get("id"))
            case {"tool_call_id": identity} | {"tool_use_id": identity}:
                results.append(identity)
            case {"type": "function_call_output"}:
                results.append(value["call_id"])
    return calls, results


def test_every_adapter_has_a_voice_in_these_tests() -> None:
    assert {voice.adapter for voice in VOICES} == set(adapters())


def test_an_unknown_adapter_is_named_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"'smoke'.*ollama"):
        adapter_for("smoke")


async def test_an_answer_is_read(voice: Voice, stream: bool, client: ModelClient) -> None:
    async with serve_script(voice.script(PLAIN, stream=stream)) as server:
        completion = await ask(client, call_to(voice, server.origin, stream=stream))

    response = completion.response
    assert response.error is None
    assert (response.text, response.thinking) == ("Hello, Zürich €.", "A greeting.")
    assert (response.finish_reason, response.finish_reason_raw) == (FinishReason.STOP, voice.raw.get("stop", "stop"))
    assert response.served_model == "test-model-0626"
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (20, 8, 28)
    assert server.received[0].url == server.origin + voice.path_of(stream=stream)
    assert server.received[0].headers[voice.key_header] == voice.key_prefix + KEY
    assert KEY not in server.received[0].url  # W7


async def test_parallel_calls_keep_their_order_and_ids(voice: Voice, stream: bool, client: ModelClient) -> None:
    async with serve_script(voice.script(CALLS, stream=stream)) as server:
        completion = await ask(client, call_to(voice, server.origin, stream=stream, tools=(CITY, CLOCK)))

    response = completion.response
    assert response.finish_reason is FinishReason.TOOL_CALLS
    assert [(c.id, c.name, c.arguments, c.executable) for c in response.tool_calls] == [
        ("c1", "get_weather", {"city": "Oslo"}, True),
        ("c2", "get_weather", {"city": "Rome"}, True),
        ("c3", "get_time", {}, True),
    ]


@pytest.mark.parametrize("said", [PLAIN, CALLS, Said(text="Cut", finish="length")], ids=["text", "calls", "length"])
async def test_the_streamed_answer_equals_the_whole_one(voice: Voice, said: Said, client: ModelClient) -> None:
    answers = []
    for streamed in (True, False):
        async with serve_script(voice.script(said, stream=streamed)) as server:
            completion = await ask(client, call_to(voice, server.origin, stream=streamed, tools=(CITY, CLOCK)))
        answers.append(completion.response)

    assert answers[0] == answers[1]  # W3


async def test_ids_that_are_taken_or_doubled_are_minted_anew(voice: Voice, stream: bool, client: ModelClient) -> None:
    said = replace(
        CALLS, calls=(("c1", "get_time", {}), ("c2", "get_time", {}), ("c2", "get_weather", {"city": "Rome"}))
    )
    history = [
        *GO,
        Message(role="assistant", tool_calls=(ToolCall(id="c1", name="get_time", arguments={}),)),
        Message(role="tool", tool_call_id="c1", name="get_time", parts=(Part(text="12:00"),)),
    ]
    async with serve_script(voice.script(said, stream=stream)) as server:
        call = call_to(voice, server.origin, stream=stream, tools=(CITY, CLOCK))
        completion = await ask(client, call, history)

    calls = completion.response.tool_calls
    assert [c.name for c in calls] == ["get_time", "get_time", "get_weather"]  # L8
    assert calls[1].id == "c2"
    assert len({"c1", *(c.id for c in calls)}) == 4
    assert [c.provider_id for c in calls] == ["c1", "c2", "c2"]


async def test_our_ids_go_back_on_the_wire(voice: Voice, client: ModelClient) -> None:
    said = replace(CALLS, calls=(("c1", "get_time", {}), ("c1", "get_time", {})))
    async with serve_script(voice.script(said, stream=False)) as server:
        call = call_to(voice, server.origin, stream=False, tools=(CLOCK,))
        completion = await ask(client, call)
        message = completion.response.message
        results = [tool_message(c, "12:00") for c in message.tool_calls]
        await ask(client, call, [*GO, message, *results])

    calls, results = call_ids(json.loads(server.received[1].body))
    adapter = adapter_for(voice.adapter)
    # Gemini is given back its own ids only.
    expected = [
        None if c.provider_id != c.id and voice.adapter == "gemini" else adapter.wire_id(c.id)
        for c in message.tool_calls
    ]
    assert calls == results == expected
    assert len(set(calls)) == 2


async def test_a_call_to_a_tool_that_was_not_offered_is_known_as_such(
    voice: Voice, stream: bool, client: ModelClient
) -> None:
    async with serve_script(voice.script(CALLS, stream=stream)) as server:
        completion = await ask(client, call_to(voice, server.origin, stream=stream, tools=(CLOCK,)))

    problems = [c.problem for c in completion.response.tool_calls]
    assert problems == [CallProblem.NOT_OFFERED, CallProblem.NOT_OFFERED, None]


async def test_calls_of_an_answer_cut_by_length_are_not_executable(
    voice: Voice, stream: bool, client: ModelClient
) -> None:
    async with serve_script(voice.script(replace(CALLS, finish="length"), stream=stream)) as server:
        completion = await ask(client, call_to(voice, server.origin, stream=stream, tools=(CITY, CLOCK)))

    assert completion.response.finish_reason is FinishReason.LENGTH
    assert {c.problem for c in completion.response.tool_calls} == {CallProblem.CUT_OFF}


@pytest.mark.parametrize(("status", "body", "kind", "retryable"), ERROR_BODIES)
async def test_an_error_is_told_by_its_kind(
    wire: Voice, stream: bool, client: ModelClient, status: int, body: Any, kind: ErrorKind, retryable: bool
) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    script = Script(status=status, headers={"content-type": "application/json"}, writes=[text.encode()])
    async with serve_script(script) as server:
        completion = await ask(client, call_to(wire, server.origin, stream=stream))

    response = completion.response
    assert response.error is not None
    assert (response.error.kind, response.error.status, response.error.retryable) == (kind, status, retryable)  # W5
    assert response.error.message and "<" not in response.error.message
    assert response.error.advice
    assert (response.finish_reason, response.finish_reason_raw, response.usage) == (None, None, None)
    assert not response.message.parts


@pytest.mark.parametrize(
    ("content_type", "text", "kind"),
    [
        ("text/html", "<!doctype html><title>Welcome</title>", ErrorKind.MALFORMED_RESPONSE),
        ("application/json", "", ErrorKind.EMPTY_RESPONSE),
        ("application/json", "   ", ErrorKind.EMPTY_RESPONSE),
        ("application/json", '{"object": "list"}', ErrorKind.MALFORMED_RESPONSE),
        ("application/json", "[]", ErrorKind.MALFORMED_RESPONSE),
        ("application/json", "null", ErrorKind.MALFORMED_RESPONSE),
        ("application/json", '{"choices": []}', ErrorKind.MALFORMED_RESPONSE),
        ("application/json", '{"choices": [', ErrorKind.MALFORMED_RESPONSE),
        ("application/json", "[" * 50_000, ErrorKind.MALFORMED_RESPONSE),
        ("application/json", '{"error": {"message": "Busy", "code": 503}}', ErrorKind.OVERLOADED),
        ("application/json", '{"error": "no such model", "code": 404}', ErrorKind.NOT_FOUND),
    ],
)
async def test_a_success_that_is_none_has_a_clear_error(
    wire: Voice, stream: bool, client: ModelClient, content_type: str, text: str, kind: ErrorKind
) -> None:
    async with serve_script(Script(headers={"content-type": content_type}, writes=[text.encode()])) as server:
        completion = await ask(client, call_to(wire, server.origin, stream=stream))

    assert completion.response.error is not None
    assert completion.response.error.kind is kind  # W4


async def test_an_answer_without_text_or_call_is_an_error(voice: Voice, stream: bool, client: ModelClient) -> None:
    async with serve_script(voice.script(Said(thinking="Hm."), stream=stream)) as server:
        completion = await ask(client, call_to(voice, server.origin, stream=stream))

    assert completion.response.error is not None
    assert completion.response.error.kind is ErrorKind.EMPTY_RESPONSE
    assert completion.response.thinking == "Hm."


async def test_a_stream_that_ends_without_its_end_keeps_the_partial_answer(voice: Voice, client: ModelClient) -> None:
    whole = voice.script(CALLS, stream=True)
    end = next(index for index, piece in enumerate(whole.writes) if b"Oslo" in piece or b"slo" in piece) + 1
    cut = replace(whole, writes=whole.writes[:end])
    async with serve_script(cut) as server:
        completion = await ask(client, call_to(voice, server.origin, tools=(CITY, CLOCK)))

    response = completion.response
    assert response.error is not None
    assert (response.error.kind, response.error.retryable) == (ErrorKind.STREAM_INCOMPLETE, True)
    assert (response.finish_reason, response.finish_reason_raw) == (FinishReason.ERROR, "")
    assert response.text == "One moment."
    assert {c.problem for c in response.tool_calls} == {CallProblem.CUT_OFF}
    assert (response.usage is not None) is voice.usage_up_front  # M1


async def test_an_error_in_the_stream_keeps_the_partial_answer(voice: Voice, client: ModelClient) -> None:
    whole = voice.script(PLAIN, stream=True)
    failing = replace(whole, writes=[*whole.writes[: -voice.ending(PLAIN)], voice.error_frame("The server is busy")])
    async with serve_script(failing) as server:
        completion = await ask(client, call_to(voice, server.origin))

    response = completion.response
    assert response.error is not None
    assert response.error.message == "The server is busy"
    assert response.finish_reason is FinishReason.ERROR
    assert response.thinking == "A greeting."


async def test_a_stream_is_read_although_it_was_not_asked_for(voice: Voice, client: ModelClient) -> None:
    async with serve_script(voice.script(PLAIN, stream=True)) as server:
        completion = await ask(client, call_to(voice, server.origin, stream=False))

    assert (completion.response.text, completion.response.error) == ("Hello, Zürich €.", None)


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream", "application/octet-stream"])
async def test_a_whole_answer_is_read_although_a_stream_was_asked_for(
    voice: Voice, client: ModelClient, content_type: str
) -> None:
    script = replace(voice.script(PLAIN, stream=False), headers={"content-type": content_type})
    async with serve_script(script) as server:
        completion = await ask(client, call_to(voice, server.origin, stream=True))

    assert (completion.response.text, completion.response.error) == ("Hello, Zürich €.", None)


@pytest.mark.parametrize("tools", [(), (CITY, CLOCK)], ids=["without tools", "with tools"])
async def test_the_prepared_request_is_what_the_server_gets(
    voice: Voice, stream: bool, client: ModelClient, tools: Any
) -> None:
    history = [*GO, Message.of("assistant", "Yes?"), Message.of("user", "Zürich € \0 \ud83d\ude00 \udcaf \u2028")]
    async with serve_script(voice.script(PLAIN, stream=stream)) as server:
        call = call_to(voice, server.origin, stream=stream, tools=tools, temperature=0.5, max_tokens=99)
        transcript = client.transcript(call, history)
        prepared = client.prepare(call, transcript)
        await client.send(call, prepared)

    received = server.received[0]
    assert received.body == prepared.body  # A5
    assert received.url == prepared.url
    assert prepared.sha256 == client.prepare(call, client.transcript(call, history)).sha256
    body = json.loads(received.body)
    assert ("tools" in body) is bool(tools)  # L3
    assert "Zürich € \0 😀 � \u2028" in [value for _, value in walk(body[voice.turns][-1])]
    assert KEY not in repr(prepared)  # W7
    assert prepared.masked_headers[voice.key_header] == f"{voice.key_prefix}•••"


async def test_a_message_is_encoded_once(voice: Voice, client: ModelClient) -> None:
    call = call_to(voice, "http://127.0.0.1")
    transcript = client.transcript(call, GO)
    first = transcript.encoded()[0]
    transcript.extend([Message.of("assistant", "Yes?"), Message.of("user", "Go on")])

    assert transcript.encoded()[0] is first  # W8
    again = client.transcript(call, [*GO, Message.of("assistant", "Yes?"), Message.of("user", "Go on")])
    assert client.prepare(call, again).body == client.prepare(call, transcript).body


SPELLED = {
    "temperature": "0.25",
    "top_p": "0.75",
    "max_tokens": "4321",
    "seed": "77",
    "stop": '"end"',
    "thinking": '"high"',
}


async def test_all_parameters_go_out_with_and_without_tools(voice: Voice, client: ModelClient) -> None:
    model = {"supports_thinking": True, "context_window": 8192}
    for tools, choice in (((CITY,), "auto"), ((CITY,), "none"), ((), "auto")):
        call = call_to(
            voice,
            "http://127.0.0.1",
            model=model,
            tools=tools,
            tool_choice=choice,
            temperature=0.25,
            top_p=0.75,
            max_tokens=4321,
            seed=77,
            stop=("END",),
            thinking="high",
        )
        text = client.prepare(call, client.transcript(call, GO)).body.decode().lower()
        told = adapter_for(voice.adapter).left_out(call)
        for name, value in SPELLED.items():
            assert (value in text) is (name not in told), name  # L5


async def test_the_last_completion_can_call_no_tool(voice: Voice, client: ModelClient) -> None:
    call = call_to(voice, "http://127.0.0.1", tools=(CITY,), tool_choice="none")
    body = json.loads(client.prepare(call, client.transcript(call, GO)).body)

    if adapter_for(voice.adapter).supports_tool_choice_none:
        assert len(body["tools"]) == 1  # L4
        assert "none" in json.dumps(body.get("tool_choice") or body["toolConfig"]).lower()
    else:
        assert "tools" not in body and "tool_choice" not in body


async def test_a_call_despite_tool_choice_none_is_not_executable(voice: Voice, client: ModelClient) -> None:
    async with serve_script(voice.script(CALLS, stream=True)) as server:
        call = call_to(voice, server.origin, tools=(CITY, CLOCK), tool_choice="none")
        completion = await ask(client, call)

    assert not any(c.executable for c in completion.response.tool_calls)


async def test_an_image_goes_to_a_model_that_sees_and_to_no_other(voice: Voice, client: ModelClient) -> None:
    image = Message(
        role="user", parts=(Part(text="What is this?"), Part(kind="image", media_type="image/png", data="aWk="))
    )
    seeing = call_to(voice, "http://127.0.0.1", model={"supports_images": True})
    assert b"aWk=" in client.prepare(seeing, client.transcript(seeing, [image])).body

    blind = call_to(voice, "http://127.0.0.1")
    with pytest.raises(ConfigurationError, match="takes no images"):
        client.prepare(blind, client.transcript(blind, [image]))


async def test_arguments_that_could_not_be_read_go_back_as_valid_json(voice: Voice, client: ModelClient) -> None:
    broken = ToolCall(id="c1", name="get weather!", arguments=None, arguments_raw='{"city": "Os', provider_id="c1")
    history = [*GO, Message(role="assistant", tool_calls=(broken,)), tool_message(broken, "parse error", is_error=True)]
    call = call_to(voice, "http://127.0.0.1", tools=(CITY,))

    body = json.loads(client.prepare(call, client.transcript(call, history)).body)
    (arguments,) = [value for key, value in walk(body[voice.turns]) if key in ("arguments", "input", "args")]
    assert arguments == {} or json.loads(arguments) == {}
    assert '"Os' not in json.dumps(body)


async def test_inline_thinking_is_taken_out_of_the_answer(voice: Voice, stream: bool, client: ModelClient) -> None:
    said = Said(text="<think>\nHm.\n</think>\n\nYes, <think> is a tag.")
    async with serve_script(voice.script(said, stream=stream)) as server:
        completion = await ask(client, call_to(voice, server.origin, stream=stream, model={"inline_think": "tags"}))

    assert completion.response.thinking == "Hm."
    assert completion.response.text == "Yes, <think> is a tag."


def replaced(piece: bytes, *, a: bytes, b: bytes) -> bytes:
    """The piece with other texts in the place of "a", "b" and "ab"."""
    for old, new in ((b'"a"', a), (b'"b"', b), (b'"ab"', a + b)):
        piece = piece.replace(old, b'"' + new + b'"')
    return piece


async def test_a_surrogate_pair_cut_in_two_becomes_one_character(voice: Voice, client: ModelClient) -> None:
    whole = voice.script(Said(text="ab"), stream=True)
    pieces = [replaced(piece, a=rb"\ud83d", b=rb"\ude00 \udcaf") for piece in whole.writes]
    async with serve_script(replace(whole, writes=pieces)) as server:
        completion = await ask(client, call_to(voice, server.origin))

    assert completion.response.text == "😀 �"
