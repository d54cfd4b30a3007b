"""The pure pieces of the adapters: arguments, thinking tags, events, fragments of calls, counts, failures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llmcore.configuration import LanguageModel, Provider
from llmcore.errors import ErrorKind
from llmcore.messages import FinishReason, ModelResponse
from llmcore.providers.arguments import read_arguments
from llmcore.providers.base import ModelCall, WireReply
from llmcore.providers.call_fragments import CallFragments
from llmcore.providers.event_stream import EventReader, ServerEvent
from llmcore.providers.failures import MAX_MESSAGE, clean_message, error_in, failure, http_failure
from llmcore.providers.finish import OPENAI_REASONS, settle
from llmcore.providers.json_text import decode_json, encode_json, mend_surrogates
from llmcore.providers.registry import adapter_for
from llmcore.providers.think_tags import ThinkSplitter
from llmcore.providers.token_counts import read_cost, total_of
from llmcore.providers.usage_fields import OPENAI_USAGE

CITY_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


@pytest.mark.parametrize("raw", ["", "  \n", None, "null", " null ", {}, "{}"])
def test_no_arguments_are_an_empty_object(raw: Any) -> None:
    assert read_arguments(raw) == ({}, None)  # L6


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [
        ('{"city": "Oslo"}', {"city": "Oslo"}),
        ({"city": "Oslo"}, {"city": "Oslo"}),
        ('"{\\"city\\": \\"Oslo\\"}"', {"city": "Oslo"}),
        (' {"city": "Oslo"}\n', {"city": "Oslo"}),
        ('{"text": "line\nbreak\ttab"}', {"text": "line\nbreak\ttab"}),
        ('{"text": "a\\u0000b \\\\u0000"}', {"text": "a\0b \\u0000"}),
        ('{"text": "\\ud83d\\ude00 \\udcaf"}', {"text": "😀 �"}),
        ({"text": "\ud83d\ude00 \udcaf"}, {"text": "😀 �"}),
        ('{"n": 12345678901234567890}', {"n": 12345678901234567890}),
    ],
)
def test_an_object_is_read_in_whatever_shape_it_comes(raw: Any, arguments: Any) -> None:
    assert read_arguments(raw) == (arguments, None)


@pytest.mark.parametrize(
    "raw",
    [
        '{"city": "Os',
        "[1, 2]",
        "5",
        "true",
        '"Oslo"',
        '""',
        '"null"',
        '"[1]"',
        "Oslo",
        "{'city': 'Oslo'}",
        '{"a": 1}{"b": 2}',
        '{"a": NaN}',
        '{"a": 1e999}',
        '"\\"{}\\""',
        "[" * 100_000,
        '{"a":' * 200 + "1" + "}" * 200,
    ],
)
def test_what_is_no_object_is_undecodable_and_kept(raw: str) -> None:
    assert read_arguments(raw) == (None, raw)


@pytest.mark.parametrize(("raw", "kept"), [([1], "[1]"), (5, "5"), (False, "false")])
def test_a_value_that_is_no_object_is_kept_as_json(raw: Any, kept: str) -> None:
    assert read_arguments(raw) == (None, kept)


LISTS = {"type": "array", "items": {"type": "string"}}


@pytest.mark.parametrize(
    ("schema", "sent", "read"),
    [
        (LISTS, '["a", "b"]', ["a", "b"]),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        ({"type": ["array", "null"]}, "[1]", [1]),
        ({"anyOf": [LISTS, {"type": "null"}]}, '["a"]', ["a"]),
        ({"$ref": "#/$defs/Names"}, '["a"]', ["a"]),
        ({"type": "array", "items": {"type": "object"}}, ['{"a": 1}'], [{"a": 1}]),
        ({"type": "object", "properties": {"x": LISTS}}, {"x": '["a"]'}, {"x": ["a"]}),
        ({"type": "object", "properties": {"x": LISTS}}, '{"x": "[1]"}', {"x": "[1]"}),
        ({"type": "string"}, '["a"]', '["a"]'),
        ({"type": ["string", "array"]}, '["a"]', '["a"]'),
        ({"anyOf": [LISTS, {"type": "string"}]}, '["a"]', '["a"]'),
        ({}, '["a"]', '["a"]'),
        (LISTS, '{"a": 1}', '{"a": 1}'),
        ({"type": "object"}, "[1]", "[1]"),
        (LISTS, "a, b", "a, b"),
        ({"type": "integer"}, "5", "5"),
        ({"$ref": "#/$defs/Loop"}, "[1]", "[1]"),
        ({"$ref": "#/nowhere"}, "[1]", "[1]"),
    ],
)
def test_a_nested_text_is_unwrapped_only_where_the_schema_asks_for_it(schema: Any, sent: Any, read: Any) -> None:
    defs = {"Names": LISTS, "Loop": {"$ref": "#/$defs/Loop"}}
    whole = {"type": "object", "properties": {"value": schema}, "$defs": defs}

    assert read_arguments({"value": sent, "other": '["b"]'}, whole) == ({"value": read, "other": '["b"]'}, None)


def split(text: str, mode: Any, size: int) -> tuple[str, str]:
    splitter = ThinkSplitter(mode)
    pieces = [piece for at in range(0, len(text), size) for piece in splitter.feed(text[at : at + size])]
    pieces += splitter.finish()
    thinking, answer = ("".join(text for kind, text in pieces if kind == wanted) for wanted in ("thinking", "text"))
    return thinking, answer


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize(
    ("mode", "text", "thinking", "answer"),
    [
        ("tags", "<think>Hm.</think>Yes", "Hm.", "Yes"),
        ("tags", "\n<think>\nHm.\n</think>\n\nYes", "Hm.", "Yes"),
        ("tags", "[THINK]Hm.[/THINK]Yes", "Hm.", "Yes"),
        ("tags", "<mm:think>Hm.</mm:think>Yes", "Hm.", "Yes"),
        ("tags", "<think>a </thin b</think>c", "a </thin b", "c"),
        ("tags", "<think></think>Yes", "", "Yes"),
        ("tags", "<think>Hm.", "Hm.", ""),
        ("tags", "<think>a [/THINK] b</think>c", "a [/THINK] b", "c"),
        ("tags", "Use <think> tags</think>", "", "Use <think> tags</think>"),
        ("tags", " Yes <think>", "", " Yes <think>"),
        ("tags", "<thin", "", "<thin"),
        ("tags", "", "", ""),
        ("tags", "<think>Hm.</think>a <think>b</think>", "Hm.", "a <think>b</think>"),
        ("prefilled", "Hm.</think>\nYes", "Hm.", "Yes"),
        ("prefilled", "Hm.[/THINK]Yes", "Hm.", "Yes"),
        ("prefilled", "<think>Hm.</think>Yes", "Hm.", "Yes"),
        ("prefilled", "Hm, and", "Hm, and", ""),
        ("prefilled", "</think>Yes </think>", "", "Yes </think>"),
    ],
)
def test_inline_thinking_is_split_off_however_the_text_is_cut(
    mode: str, text: str, thinking: str, answer: str, size: int
) -> None:
    assert split(text, mode, size) == (thinking, answer)


def events_of(text: str, size: int) -> list[ServerEvent]:
    reader, data = EventReader(), text.encode()
    found = [event for at in range(0, len(data), size) for event in reader.feed(data[at : at + size])]
    last = reader.flush()
    return [*found, last] if last else found


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("data: a\n\ndata:b\n\n", [("", "a"), ("", "b")]),
        ("data: a\ndata: b\n\n", [("", "a\nb")]),
        ("event: x\ndata: a\n\ndata: b\n\n", [("x", "a"), ("", "b")]),
        (": comment\n\ndata: a\n\n:\n\n", [("", "a")]),
        ("id: 1\nretry: 5\n\n: ping\n\ndata: a\n\n", [("", "a")]),
        ("event: ping\ndata: \n\ndata: a\n\n", [("", "a")]),
        ("event: ping\n\ndata: a\n\n", [("", "a")]),
        ("data: : keepalive\n\ndata: a\n\n", [("", "a")]),
        ("data:  two spaces\n\n", [("", " two spaces")]),
        ("data: a", [("", "a")]),
        ("\ufeffdata: a\n\n", [("", "a")]),
        ("data: Zürich € 😀\n\n", [("", "Zürich € 😀")]),
        ("data\n\ndata: a\n\n", [("", "a")]),
    ],
)
def test_events_are_read_however_the_bytes_are_cut(text: str, events: list[Any], end: str, size: int) -> None:
    assert events_of(text.replace("\n", end), size) == [ServerEvent(*event) for event in events]


def test_a_field_named_error_is_an_error() -> None:
    assert events_of('error: {"code":400}\n\n', 1000) == [ServerEvent("", '{"code":400}', True)]


def fragment(arguments: Any = None, **more: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": more.pop("name")} if "name" in more else {})}
    return {"function": function, **more}


WEATHER = {"name": "get_weather"}


@pytest.mark.parametrize(
    ("fragments", "calls"),
    [
        pytest.param(
            [fragment('{"a"', id="x", index=0, **WEATHER), fragment(":1}", index=0)],
            [("x", "get_weather", '{"a":1}')],
            id="in pieces",
        ),
        pytest.param(
            [fragment("{}", id="x", index=0, **WEATHER), fragment("{}", id="x", index=1, **WEATHER)],
            [("x", "get_weather", "{}"), ("x", "get_weather", "{}")],
            id="one id for two indexes",
        ),
        pytest.param(
            [fragment('{"a":1}', index=0, **WEATHER), fragment('{"a":2}', index=1, **WEATHER)],
            [(None, "get_weather", '{"a":1}'), (None, "get_weather", '{"a":2}')],
            id="no ids",
        ),
        pytest.param(
            [fragment('{"a":1}', **WEATHER), fragment('{"a":2}', **WEATHER)],
            [(None, "get_weather", '{"a":1}'), (None, "get_weather", '{"a":2}')],
            id="no ids and no indexes",
        ),
        pytest.param(
            [fragment('{"a":1}', index=0, **WEATHER), fragment('{"a":2}', index=0, **WEATHER)],
            [(None, "get_weather", '{"a":1}'), (None, "get_weather", '{"a":2}')],
            id="no ids and always the same index",
        ),
        pytest.param(
            [fragment('{"a"', **WEATHER), fragment(":", **WEATHER), fragment("1}", **WEATHER)],
            [(None, "get_weather", '{"a":1}')],
            id="name repeated without id and index",
        ),
        pytest.param(
            [fragment("", id="null", index=0, **WEATHER), fragment("{}", index=0)],
            [(None, "get_weather", "{}")],
            id="the id null",
        ),
        pytest.param(
            [fragment("", index=0, **WEATHER), fragment("{}", id="x", index=0), fragment("", index=0)],
            [(None, "get_weather", ""), ("x", "", "{}")],
            id="a new id always opens a call",
        ),
        pytest.param(
            [{"index": 0}, {"index": 0, "function": None}, None, "x", fragment(None, index=0)], [], id="nothing"
        ),
        pytest.param([fragment({"a": 1}, id="x", **WEATHER)], [("x", "get_weather", {"a": 1})], id="an object"),
    ],
)
def test_fragments_of_calls_find_their_call(fragments: list[Any], calls: list[Any]) -> None:
    collected = CallFragments()
    for item in fragments:
        collected.add(item)

    assert [(draft.id, draft.name, draft.arguments) for draft in collected.drafts()] == calls


@pytest.mark.parametrize(
    ("raw", "has_calls", "settled"),
    [
        ("stop", True, FinishReason.TOOL_CALLS),
        ("", True, FinishReason.TOOL_CALLS),
        ("", False, FinishReason.STOP),
        ("tool_calls", False, FinishReason.STOP),
        ("function_call", True, FinishReason.TOOL_CALLS),
        ("length", True, FinishReason.LENGTH),
        ("content_filter", True, FinishReason.CONTENT_FILTER),
        ("error", True, FinishReason.ERROR),
        ("STOP", False, FinishReason.STOP),
        ("something_new", False, FinishReason.STOP),
        ("something_new", True, FinishReason.TOOL_CALLS),
    ],
)
def test_the_finish_reason_is_settled_by_what_there_is(raw: str, has_calls: bool, settled: FinishReason) -> None:
    assert settle(raw, OPENAI_REASONS, has_calls=has_calls) is settled


@pytest.mark.parametrize(
    ("raw", "counts"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}, (10, 5, 15)),
        ({"prompt_tokens": 10, "completion_tokens": 5}, (10, 5, 15)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 0}, (10, 5, 15)),
        ({"prompt_tokens": 10, "completion_tokens": None}, (10, None, None)),
        ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, (0, 0, 0)),
        ({"prompt_tokens": 10.0, "completion_tokens": True}, (10, None, None)),
        ({"prompt_tokens": -1, "completion_tokens": "5"}, (None, None, None)),
        ({"prompt_tokens": 10**12, "completion_tokens": 5}, (None, 5, None)),
        ({"input_tokens": 10, "output_tokens": 5}, (10, 5, 15)),
    ],
)
def test_counts_are_read_or_unknown(raw: Any, counts: tuple[int | None, ...]) -> None:
    usage = OPENAI_USAGE.read(raw)
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == counts


def test_no_usage_is_unknown() -> None:
    assert OPENAI_USAGE.read(None) is None
    assert OPENAI_USAGE.read({}) is None
    assert total_of(None, None, 5) is None


@pytest.mark.parametrize(("value", "cost"), [(0.0001, "0.0001"), ("0.5", "0.5"), (None, None), ("x", None), (-1, None)])
def test_the_cost_that_a_gateway_reports_is_exact(value: Any, cost: str | None) -> None:
    found = read_cost({"cost": value})
    assert (None if found is None else str(found)) == cost


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        ({"error": {"message": "busy", "code": 429}}, ErrorKind.RATE_LIMIT, 429),
        ({"error": {"message": "busy", "code": "429"}}, ErrorKind.RATE_LIMIT, 429),
        ({"error": {"message": "bad", "status_code": 400}}, ErrorKind.INVALID_REQUEST, 400),
        ({"type": "error", "error": {"type": "overloaded_error"}}, ErrorKind.OVERLOADED, 529),
        ([{"error": {"message": "x", "code": 403}}], ErrorKind.PERMISSION, 403),
        ({"object": "error", "message": "x", "code": 404}, ErrorKind.NOT_FOUND, 404),
        ({"error": "the model crashed"}, ErrorKind.SERVER, 200),
        ({"error": "Unexpected endpoint or method. (POST /chat/completions)"}, ErrorKind.NOT_FOUND, 200),
        ({"error": {"code": "exceed_context_size_error", "message": "x"}}, ErrorKind.CONTEXT_LENGTH, 200),
        (
            {"error": {"code": 500, "message": "the request exceeds the available context size"}},
            ErrorKind.CONTEXT_LENGTH,
            500,
        ),
        ({"error": {"code": 400, "message": "maximum context length is 4096 tokens"}}, ErrorKind.CONTEXT_LENGTH, 400),
        ({"error": {"code": 400, "message": "This string is too long"}}, ErrorKind.INVALID_REQUEST, 400),
        (
            {"error": {"code": 400, "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
            ErrorKind.CONTENT_FILTER,
            400,
        ),
    ],
)
def test_an_error_within_a_success_has_its_own_status(body: Any, kind: ErrorKind, status: int) -> None:
    report = error_in(body)
    assert report is not None
    error = failure(report, 200)
    assert (error.kind, error.status) == (kind, status)


@pytest.mark.parametrize("body", [{"error": None}, {"error": ""}, {"error": {}}, {"choices": []}, [], "error", None])
def test_a_body_without_an_error_has_none(body: Any) -> None:
    assert error_in(body) is None


def test_what_the_model_wrote_instead_of_a_call_is_kept() -> None:
    body = {"error": {"message": "No", "code": "tool_use_failed", "failed_generation": "It is cold."}}

    error = http_failure(400, json.dumps(body).encode())

    assert (error.kind, error.retryable, error.failed_generation) == (ErrorKind.TOOL_USE_FAILED, True, "It is cold.")


def test_a_page_is_named_and_never_quoted() -> None:
    page = "<!DOCTYPE html><html><head><title>502\n Bad Gateway</title></head><body>x</body></html>"
    inside = json.dumps({"error": {"message": page}})

    assert http_failure(502, page.encode()).message == (
        "The server answered with HTTP 502 and an HTML page titled “502 Bad Gateway” instead of JSON."
    )
    assert (
        http_failure(502, inside.encode()).message
        == "The server's error message is an HTML page titled “502 Bad Gateway”."
    )


def test_messages_are_bounded_and_printable() -> None:
    assert len(clean_message("x" * 10_000)) == MAX_MESSAGE + 1
    assert clean_message("a\0b\x1b[31m\nc \udcaf") == "a b [31m\nc �"


@pytest.mark.parametrize(
    "detail", ["Not allowed", [{"msg": "Not allowed", "loc": ["body", "x"]}], {"msg": "Not allowed"}]
)
def test_the_details_of_a_framework_are_the_message(detail: Any) -> None:
    assert "Not allowed" in http_failure(422, json.dumps({"detail": detail}).encode()).message


def test_a_value_that_was_read_can_be_written() -> None:
    value = decode_json('{"a": "\\udcaf \\ud83d\\ude00", "b": [1.5, null, true], "c": "\\u0000"}')

    assert json.loads(encode_json(value)) == {"a": "� 😀", "b": [1.5, None, True], "c": "\0"}
    assert mend_surrogates("plain") == "plain"


def chat_stream(*chunks: dict[str, Any]) -> ModelResponse:
    call = ModelCall(
        provider=Provider(slug="p", name="P", adapter="openai_compat", base_url="https://host/v1"),
        model=LanguageModel(name="m"),
    )
    decoder = adapter_for("openai_compat").stream_decoder(call)
    for chunk in chunks:
        decoder.feed(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    return decoder.finish()


def chunk(finish: str | None = None, *, index: int = 0, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": delta, "finish_reason": finish}]}


def test_thinking_under_two_names_counts_once_and_goes_back_under_the_first() -> None:
    response = chat_stream(
        chunk(reasoning="Hm, "),
        chunk(reasoning="well", reasoning_content="well"),
        chunk(reasoning_content="."),
        chunk("stop", content="Yes"),
    )

    assert response.thinking == "Hm, well."
    assert response.message.parts[0].extra == {"wire": "openai_compat", "field": "reasoning"}


def test_only_the_first_of_several_choices_is_read() -> None:
    both = {"choices": [*chunk(content="A")["choices"], *chunk(content="B", index=1)["choices"]]}

    response = chat_stream(both, chunk(content="b", index=1), chunk("stop", content="a"), chunk("length", index=1))

    assert (response.text, response.finish_reason) == ("Aa", FinishReason.STOP)


def test_a_legacy_function_call_is_a_call() -> None:
    response = chat_stream(
        chunk(function_call={"name": "f", "arguments": "{"}), chunk("function_call", function_call={"arguments": "}"})
    )

    (call,) = response.tool_calls
    assert (call.name, call.arguments, response.finish_reason) == ("f", {}, FinishReason.TOOL_CALLS)


def test_a_refusal_is_kept_apart_from_the_answer() -> None:
    response = chat_stream(chunk(refusal="I can't "), chunk("stop", refusal="do that."))

    assert (response.refusal, response.text) == ("I can't do that.", "")
    assert (response.finish_reason, response.error) == (FinishReason.CONTENT_FILTER, None)


def test_an_answer_in_a_never_closed_prefilled_tag_is_the_answer() -> None:
    call = ModelCall(
        provider=Provider(slug="p", name="P", adapter="openai_compat", base_url="https://host/v1"),
        model=LanguageModel(name="m", inline_think="prefilled"),
    )
    for finish, text, thinking in (("stop", "Just yes.", ""), ("length", "", "Just yes.")):
        body = {"choices": [{"message": {"content": "Just yes."}, "finish_reason": finish}]}
        reply = WireReply(status=200, headers={}, body=json.dumps(body).encode())
        response = adapter_for("openai_compat").decode(reply, call)
        assert (response.text, response.thinking, response.error) == (text, thinking, None)


def test_a_finish_by_error_without_an_error_has_one() -> None:
    response = chat_stream(chunk("error", content="Half"))

    assert response.error is not None
    assert (response.error.kind, response.text) == (ErrorKind.SERVER, "Half")
