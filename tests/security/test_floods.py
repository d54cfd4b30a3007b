"""What servers, models and tools send is bounded in memory, in time and in what it makes of a page."""

from __future__ import annotations

import gzip
import io
import json
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from llmcore.errors import ErrorKind
from llmcore.lint import look_over
from llmcore.management.wire_check.server import Script, serve_script
from llmcore.metering.client import ModelClient, open_http
from llmcore.prompts.assembly import Augmentation
from llmcore.providers import transport
from llmcore.providers.response_items import StreamedItems
from llmcore.providers.scripted.scenario import Turn
from llmcore.tools.arguments import objections, validator_for
from llmcore.tools.base import Action, ActionKind
from playground.models import Run
from playground.reading.compare.texts import line_diff
from playground.reading.described import describe
from playground.reading.json_tree import JsonTree
from tests.factories import UserFactory
from tests.llmcore.test_lint import draft
from tests.llmcore.voices import VOICES, ask, call_to
from tests.playground.driven import script
from tests.playground.recorded import RecordedRun

CHAT = VOICES[0]
MEGABYTE = 1024 * 1024


@pytest.fixture
def peak() -> Iterator[Any]:
    """How much memory was taken since the beginning of the test, at most."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


@pytest.fixture
async def client() -> AsyncIterator[ModelClient]:
    async with open_http() as http:
        yield ModelClient(http=http)


async def response_of(client: ModelClient, reply: Script, *, stream: bool) -> Any:
    async with serve_script(reply) as server:
        return (await ask(client, call_to(CHAT, server.origin, stream=stream))).response


@pytest.mark.parametrize("stream", [True, False])
async def test_a_compressed_answer_is_refused_before_it_is_unpacked(
    client: ModelClient, peak: Any, stream: bool
) -> None:
    # A few hundred bytes that are 100 MB, packed twice: the bound on the answer would come too late.
    bomb = gzip.compress(gzip.compress(b"\0" * 100 * MEGABYTE))
    headers = {"content-type": "text/event-stream" if stream else "application/json", "content-encoding": "gzip, GZIP"}
    tracemalloc.reset_peak()

    response = await response_of(client, Script(headers=headers, writes=[bomb]), stream=stream)

    assert response.error.kind == ErrorKind.MALFORMED_RESPONSE and "compressed" in response.error.message
    assert peak() < 10 * MEGABYTE


def test_a_capture_of_countless_pieces_keeps_all_bytes_and_the_times_of_the_first_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "MAX_PIECES", 3)
    capture = transport.Capture()
    for byte in b"answer":
        capture.add(bytes([byte]))

    pieces = [piece for _, piece in capture.pieces]

    assert pieces == [b"a", b"n", b"s", b"wer"]


def answer(**changes: Any) -> Script:
    message = {"role": "assistant", "content": "Good day.", **changes.pop("message", {})}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": changes.pop("finish", "stop")}], **changes}
    return Script(headers={"content-type": "application/json"}, writes=[json.dumps(body).encode()])


async def test_what_a_server_says_around_its_answer_is_bounded(client: ModelClient) -> None:
    long = "x" * MEGABYTE
    calls = [{"id": long, "type": "function", "function": {"name": long, "arguments": "{}"}}]
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "note": long}
    reply = answer(
        id=long, model=long, usage=usage, finish=long, message={"content": None, "refusal": long, "tool_calls": calls}
    )

    response = await response_of(client, reply, stream=False)

    said = [response.finish_reason_raw, response.served_model, response.response_id, response.refusal]
    said += [text for call in response.tool_calls for text in (call.id, call.name)]
    assert max(map(len, said)) <= 20_000
    assert response.usage.input_tokens == 3 and response.usage.raw is None


async def test_what_a_server_says_in_an_error_is_bounded(client: ModelClient) -> None:
    long = "x" * MEGABYTE
    error = {"error": {"message": long, "code": long, "param": long, "failed_generation": long}}
    reply = Script(status=400, headers={"content-type": "application/json"}, writes=[json.dumps(error).encode()])

    failure = (await response_of(client, reply, stream=False)).error

    assert len(failure.message) <= 2_001 and len(failure.code) <= 200 and len(failure.param) <= 200
    assert len(failure.failed_generation) <= 20_000


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_that_asks_for_countless_calls_is_refused(client: ModelClient, stream: bool) -> None:
    calls = [
        {"index": n, "id": f"c{n}", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}
        for n in range(3_000)
    ]
    if stream:
        events = [{"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]} for call in calls]
        body = b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events) + b"data: [DONE]\n\n"
        reply = Script(headers={"content-type": "text/event-stream"}, writes=[body])
    else:
        reply = answer(message={"content": None, "tool_calls": calls}, finish="tool_calls")

    response = await response_of(client, reply, stream=stream)

    assert response.error.kind == ErrorKind.MALFORMED_RESPONSE and "1,000 tool calls" in response.error.message
    assert len(response.tool_calls) == 1_000 and not any(call.executable for call in response.tool_calls)


def test_countless_items_without_a_place_are_left_out_in_time() -> None:
    items = StreamedItems()
    started = time.process_time()

    for number in range(100_000):
        items.take({"type": "response.output_text.delta", "item_id": f"item {number}", "delta": "x"})

    assert len(items.items()) < 6_000
    assert time.process_time() - started < 4


def test_arguments_of_countless_values_are_refused_before_they_are_checked() -> None:
    value = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"anyOf": [{"type": "string"}]}}]}
    validator = validator_for({"type": "object", "additionalProperties": value})
    started = time.process_time()

    found = objections(validator, {"filter": [[]] * 300_000})

    assert found == ["the arguments: hold more than 10,000 values; split them over several calls"]
    assert time.process_time() - started < 2
    assert objections(validator, {"filter": ["a"] * 9_000}) == []


def test_a_long_key_is_not_repeated_with_each_part_below_it() -> None:
    parts = [[["x" * 3_000] for _ in range(30)] for _ in range(30)]
    text = json.dumps({"k" * 50_000: parts})

    html = JsonTree("/step/?tab=raw").value(json.loads(text))

    assert len(html) < 2 * len(text)
    assert "hx-get" not in html and "more characters" in html


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("pointer=/a/0", 200),
        ("pointer=/a&offset=1", 200),
        ("pointer=/a/" + "9" * 5_000, 404),
        ("pointer=/b", 404),
        ("pointer=/c&offset=1", 404),
        ("pointer=/c/d", 404),
    ],
)
def test_a_pointer_that_leads_nowhere_is_not_found(query: str, status: int) -> None:
    user = UserFactory(is_superuser=True)
    recorded = RecordedRun(user)
    recorded.answer('{"a": [1], "c": null}')
    client = Client()
    client.force_login(user)

    response = client.get(f"/admin/playground/runs/{recorded.run.pk}/steps/1/?tab=response&box=text&{query}")

    assert response.status_code == status


def calling(name: str) -> Turn:
    """A call of a tool that nobody offered."""
    call = {"id": "c", "type": "function", "function": {"name": name, "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return Turn(raw=json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}))


@pytest.mark.django_db(transaction=True)
def test_the_page_of_a_run_does_not_grow_with_the_name_of_a_tool() -> None:
    with script(calling("x" * 100_000), max_rounds=2) as model:
        run: Run = model.run()
    client = Client()
    client.force_login(UserFactory(is_superuser=True))

    assert len(client.get(f"/admin/playground/runs/{run.pk}/").content) < 100_000


@pytest.mark.django_db(transaction=True)
def test_the_name_of_a_tool_gives_a_terminal_no_orders() -> None:
    out = io.StringIO()
    with script(calling("\x1b]0;owned\x07\x1b[2Jx"), max_rounds=1) as model, pytest.raises(SystemExit):
        call_command("llm_run", model.configuration.slug, prompt="What is it?", stdout=out, no_color=True)

    assert "owned" in out.getvalue() and "\x1b" not in out.getvalue() and "\x07" not in out.getvalue()


@pytest.mark.parametrize(
    ("prompt", "value"),
    [("{{" + " " * 20_000 + "}", "x"), ("{{" + "x " * 20_000, "x"), ("{{a}}" * 30_000, "{{!}}")],
    ids=["blanks", "words", "values"],
)
def test_braces_in_a_long_prompt_are_looked_through_in_time(prompt: str, value: str) -> None:
    made = draft(prompt, augmentation=Augmentation(variables={"a": value}))
    started = time.process_time()

    look_over(made)

    assert time.process_time() - started < 3


def test_lines_of_blanks_keep_nobody_from_deciding() -> None:
    diff = "@@ -0,0 +1 @@\n" + f"+{' ' * 1_900}x\n" * 1_900
    action = Action(kind=ActionKind.FILE_CHANGE, title="Change", path="a", diff=diff)
    started = time.process_time()

    shown = describe({"action": action.to_json()})

    assert len(shown.diff) > 1_900
    assert time.process_time() - started < 3


def test_lines_that_have_nothing_in_common_are_compared_in_time() -> None:
    a, b = ("\n".join(f"{mark} {number} " + mark * 300 for number in range(200)) for mark in ("+-", "*/"))
    started = time.process_time()

    lines = line_diff(a, b)

    assert any(line.mark == "−" for line in lines)
    assert time.process_time() - started < 2


@pytest.mark.parametrize("said", ["Mon, 01 Dec 99999999999 00:00:00 GMT", "1 Dec 2026 99999999999:00", "-1e999"])
async def test_an_absurd_time_to_wait_is_none(client: ModelClient, said: str) -> None:
    headers = {"content-type": "application/json", "retry-after": said.encode().decode("latin-1")}

    response = await response_of(client, Script(status=429, headers=headers, writes=[b"{}"]), stream=False)

    assert response.error.kind == ErrorKind.RATE_LIMIT and response.error.retry_after_s is None
