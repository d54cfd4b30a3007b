"""The metered client: retries, deadlines, cancel, capture, and what it tells to whom."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx
import pytest

from llmcore.configuration import Secret
from llmcore.errors import ConfigurationError, ErrorKind, ProviderError
from llmcore.management.wire_check.expectations import renderings
from llmcore.management.wire_check.server import Script, serve_script
from llmcore.messages import Delta, ModelResponse
from llmcore.metering.client import ModelClient, open_http
from llmcore.providers import base
from llmcore.providers.base import ModelCall
from llmcore.trace import WireExchange
from llmcore.usage import Prices
from tests.llmcore.voices import CITY, GO, KEY, VOICES, WIRES, Said, Voice, ask, call_to

CHAT = VOICES[0]
HELLO = Said(text="Hello there", thinking="Hm, well.")
NOW = datetime(2026, 10, 21, 7, 27, 30, tzinfo=UTC)
UNUSED_ORIGIN = "http://127.0.0.1:9"


@dataclass
class Notes:
    """An observer and a meter that write down what they are told."""

    deltas: list[Delta] = field(default_factory=list)
    retries: list[tuple[int, ErrorKind, float]] = field(default_factory=list)
    exchanges: list[WireExchange] = field(default_factory=list)
    metered: list[tuple[ModelResponse, Decimal | None]] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    first_delta: asyncio.Event = field(default_factory=asyncio.Event)
    sleeping: asyncio.Event = field(default_factory=asyncio.Event)

    def delta(self, delta: Delta) -> None:
        self.deltas.append(delta)
        self.first_delta.set()

    def retry(self, attempt: int, error: ProviderError, wait_s: float) -> None:
        self.retries.append((attempt, error.kind, wait_s))

    def exchange(self, exchange: WireExchange) -> None:
        self.exchanges.append(exchange)

    def record(self, call: ModelCall, response: ModelResponse, cost: Decimal | None) -> None:
        self.metered.append((response, cost))

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.sleeping.set()


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with open_http() as client:
        yield client


@pytest.fixture
def client(http: httpx.AsyncClient, notes: Notes) -> ModelClient:
    return ModelClient(http=http, meter=notes, now=lambda: NOW, sleep=notes.sleep, jitter=lambda: 0.0)


@pytest.fixture(params=VOICES, ids=lambda voice: voice.adapter)
def voice(request: pytest.FixtureRequest) -> Voice:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=WIRES, ids=lambda voice: voice.adapter)
def wire(request: pytest.FixtureRequest) -> Voice:
    """For what takes real time: one adapter for each way of reading answers."""
    return request.param  # type: ignore[no-any-return]


def refusing(status: int, **headers: str) -> Script:
    body = json.dumps({"error": {"message": "Not now"}}).encode()
    sent = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return Script(status=status, headers=sent, writes=[body])


def retrying(voice: Voice, origin: str, attempts: int = 3, **options: Any) -> ModelCall:
    return call_to(voice, origin, provider={"max_attempts": attempts}, **options)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 520, 524, 529])
async def test_a_passing_failure_is_tried_again(client: ModelClient, notes: Notes, status: int) -> None:
    async with serve_script(refusing(status), CHAT.script(HELLO, stream=True)) as server:
        completion = await ask(client, retrying(CHAT, server.origin), observer=notes)

    assert (completion.response.text, completion.attempts) == ("Hello there", 2)  # W4
    assert [attempt for attempt, _, _ in notes.retries] == [1]
    assert server.received[0].body == server.received[1].body
    assert len(notes.metered) == 2  # M1: one record per call, failed ones too
    assert notes.metered[0][0].error is not None


@pytest.mark.parametrize("status", [301, 400, 401, 402, 403, 404, 413, 422])
async def test_a_lasting_failure_is_not_tried_again(client: ModelClient, notes: Notes, status: int) -> None:
    async with serve_script(refusing(status)) as server:
        completion = await ask(client, retrying(CHAT, server.origin), observer=notes)

    # For a model that isn't there, the list of models is asked for, too.
    asked = [request.method for request in server.received]
    assert (completion.attempts, asked, notes.slept) == (1, ["POST", "GET"] if status == 404 else ["POST"], [])


async def test_attempts_are_bounded_and_the_waits_grow(client: ModelClient, notes: Notes) -> None:
    async with serve_script(refusing(503)) as server:
        completion = await ask(client, retrying(CHAT, server.origin, attempts=4), observer=notes)

    assert completion.response.error is not None
    assert completion.response.error.kind is ErrorKind.OVERLOADED
    assert (completion.attempts, len(server.received)) == (4, 4)
    assert notes.slept == [0.25, 0.5, 1.0]
    assert [wait for _, _, wait in notes.retries] == notes.slept


async def test_the_waits_have_jitter(http: httpx.AsyncClient, notes: Notes) -> None:
    client = ModelClient(http=http, sleep=notes.sleep, jitter=lambda: 1.0)
    async with serve_script(refusing(503)) as server:
        await ask(client, retrying(CHAT, server.origin, attempts=2))

    assert notes.slept == [0.5]


@pytest.mark.parametrize(
    ("header", "value", "wait"),
    [
        ("retry_after", "7", 7.0),
        ("retry_after", "0.503", 0.503),
        ("retry_after", "Wed, 21 Oct 2026 07:28:00 GMT", 30.0),
        ("retry_after", "Wed, 21 Oct 2026 07:00:00 GMT", 0.0),
        ("retry_after", "-5", 0.0),
        ("retry_after_ms", "1500", 1.5),
    ],
)
async def test_the_wait_that_the_server_asks_for_is_kept(
    client: ModelClient, notes: Notes, header: str, value: str, wait: float
) -> None:
    async with serve_script(refusing(429, **{header: value}), CHAT.script(HELLO, stream=True)) as server:
        completion = await ask(client, retrying(CHAT, server.origin), observer=notes)

    assert completion.attempts == 2
    assert notes.slept == [wait]


@pytest.mark.parametrize("value", ["soon", "nan", "inf", "", "Wed, 99 Foo 2026 07:28:00 GMT"])
async def test_a_wait_that_cannot_be_read_is_none(client: ModelClient, notes: Notes, value: str) -> None:
    async with serve_script(refusing(429, retry_after=value)) as server:
        completion = await ask(client, retrying(CHAT, server.origin, attempts=2))

    assert completion.response.error is not None
    assert completion.response.error.retry_after_s is None
    assert notes.slept == [0.25]


@pytest.mark.parametrize("asked", ["121", "86400"])
async def test_a_server_that_asks_for_too_long_a_wait_is_given_up(
    client: ModelClient, notes: Notes, asked: str
) -> None:
    async with serve_script(refusing(429, retry_after=asked)) as server:
        completion = await ask(client, retrying(CHAT, server.origin))

    assert completion.response.error is not None
    assert completion.response.error.retry_after_s == float(asked)
    assert (completion.attempts, notes.slept) == (1, [])


async def test_no_wait_goes_past_the_deadline_of_the_call(client: ModelClient, notes: Notes) -> None:
    async with serve_script(refusing(429, retry_after="50")) as server:
        call = call_to(CHAT, server.origin, provider={"max_attempts": 3, "total_timeout_s": 40.0})
        completion = await ask(client, call)

    assert (completion.attempts, notes.slept) == (1, [])


@pytest.mark.parametrize(("status", "wanted", "attempts"), [(429, "false", 1), (400, "true", 2)])
async def test_a_server_may_say_whether_to_try_again(
    client: ModelClient, status: int, wanted: str, attempts: int
) -> None:
    async with serve_script(refusing(status, x_should_retry=wanted)) as server:
        completion = await ask(client, retrying(CHAT, server.origin, attempts=2))

    assert completion.attempts == attempts
    assert completion.response.error is not None
    assert completion.response.error.retryable is (wanted == "true")


async def test_a_used_up_quota_is_not_tried_again(client: ModelClient) -> None:
    body = json.dumps({"error": {"message": "Top up", "code": "insufficient_quota"}}).encode()
    async with serve_script(Script(status=429, writes=[body])) as server:
        completion = await ask(client, retrying(CHAT, server.origin))

    assert completion.attempts == 1


async def test_a_server_that_is_not_there_is_a_connection_error(client: ModelClient, notes: Notes) -> None:
    async with serve_script(refusing(500)) as server:
        origin = server.origin
    completion = await ask(client, retrying(CHAT, origin, attempts=2), observer=notes)

    error = completion.response.error
    assert error is not None
    assert (error.kind, error.retryable, error.status) == (ErrorKind.CONNECTION, True, None)
    assert completion.attempts == 2
    assert completion.response.finish_reason is None


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "0.25"}, 0.25),
        ({"retry_after": "Wed, 21 Oct 2026 07:27:45 GMT"}, 15.0),
        ({"retry_after_ms": "1500", "retry_after": "60"}, 1.5),
    ],
)
async def test_every_adapter_waits_as_long_as_the_server_asks(
    voice: Voice, client: ModelClient, notes: Notes, headers: dict[str, str], wait: float
) -> None:
    async with serve_script(refusing(429, **headers), voice.script(HELLO, stream=True)) as server:
        completion = await ask(client, retrying(voice, server.origin), observer=notes)

    assert (completion.response.text, completion.attempts) == ("Hello there", 2)  # W4
    assert notes.slept == [wait]


async def test_a_stream_cut_after_its_first_token_is_not_tried_again(
    voice: Voice, client: ModelClient, notes: Notes
) -> None:
    whole = voice.script(HELLO, stream=True)
    cut = replace(whole, writes=whole.writes[:-3], ending="reset")
    async with serve_script(cut) as server:
        completion = await ask(client, retrying(voice, server.origin), observer=notes)

    error = completion.response.error
    assert error is not None
    assert (error.kind, completion.attempts, notes.slept) == (ErrorKind.STREAM_INCOMPLETE, 1, [])
    assert completion.response.thinking == "Hm, well."


async def test_a_stream_cut_before_its_first_token_is_tried_again(client: ModelClient) -> None:
    whole = CHAT.script(HELLO, stream=True)
    cut = replace(whole, writes=whole.writes[:1])
    async with serve_script(cut, whole) as server:
        completion = await ask(client, retrying(CHAT, server.origin))

    assert (completion.response.text, completion.attempts) == ("Hello there", 2)


async def test_an_answer_that_came_to_its_end_survives_a_broken_connection(voice: Voice, client: ModelClient) -> None:
    script = replace(voice.script(HELLO, stream=True), ending="reset")
    async with serve_script(script) as server:
        completion = await ask(client, retrying(voice, server.origin))

    assert (completion.response.text, completion.response.error) == ("Hello there", None)


async def test_a_whole_answer_cut_in_the_middle_is_incomplete(client: ModelClient) -> None:
    whole = CHAT.script(HELLO, stream=False)
    cut = replace(whole, headers={**whole.headers, "content-length": "100000"}, whole=False)
    async with serve_script(cut) as server:
        completion = await ask(client, call_to(CHAT, server.origin, stream=False))

    assert completion.response.error is not None
    assert completion.response.error.kind is ErrorKind.STREAM_INCOMPLETE


async def test_a_kept_alive_connection_serves_many_calls(voice: Voice, client: ModelClient) -> None:
    async with serve_script(voice.script(HELLO, stream=True, ending="keep")) as server:
        for _ in range(3):
            await ask(client, call_to(voice, server.origin))

    assert (len(server.received), server.connections) == (3, 1)


async def test_a_connection_closed_behind_our_back_is_opened_anew_without_counting(
    client: ModelClient, notes: Notes
) -> None:
    # llama.cpp closes after a streamed answer although it has promised to keep the connection.
    dropped = CHAT.script(HELLO, stream=True, ending="drop")
    async with serve_script(dropped, CHAT.script(HELLO, stream=True)) as server:
        call = call_to(CHAT, server.origin)
        await ask(client, call)
        completion = await ask(client, call, observer=notes, capture=True)

    assert (completion.response.text, completion.attempts) == ("Hello there", 1)
    assert (notes.retries, len(notes.metered), len(notes.exchanges)) == ([], 2, 1)
    assert server.connections == 2


async def test_a_new_connection_that_breaks_off_is_an_attempt_like_any_other(client: ModelClient, notes: Notes) -> None:
    requests: list[bytes] = []

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n"))
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        completion = await ask(client, call_to(CHAT, origin, provider={"max_attempts": 2}), observer=notes)

    assert completion.response.error is not None
    assert completion.response.error.kind is ErrorKind.CONNECTION
    assert (len(requests), completion.attempts, len(notes.metered), len(notes.retries)) == (2, 2, 2, 1)  # W4, M1


async def test_silence_ends_at_the_read_deadline(wire: Voice, client: ModelClient) -> None:
    async with serve_script(Script(whole=False, ending="hang")) as server:
        call = call_to(wire, server.origin, provider={"read_timeout_s": 0.05})
        completion = await ask(client, call)

    error = completion.response.error
    assert error is not None
    assert (error.kind, error.retryable) == (ErrorKind.TIMEOUT, True)
    assert "0.05 s" in error.message


async def test_an_endless_answer_ends_at_the_total_deadline(wire: Voice, client: ModelClient) -> None:
    whole = wire.script(HELLO, stream=True)
    endless = replace(whole, writes=whole.writes[:-3], ending="hang")
    async with serve_script(endless) as server:
        call = call_to(wire, server.origin, provider={"total_timeout_s": 2.4, "max_attempts": 3})
        completion = await ask(client, call)

    error = completion.response.error
    assert error is not None
    assert (error.kind, completion.attempts) == (ErrorKind.TIMEOUT, 1)
    assert "2.4 s" in error.message
    assert completion.response.thinking == "Hm, well."


async def test_a_server_that_keeps_the_connection_open_after_the_end_does_not_hold_up_the_answer(
    client: ModelClient,
) -> None:
    script = CHAT.script(HELLO, stream=True, ending="hang")
    async with asyncio.timeout(30):
        async with serve_script(script) as server:
            completion = await ask(client, call_to(CHAT, server.origin))

    assert (completion.response.text, completion.response.error) == ("Hello there", None)


async def test_cancelling_closes_the_stream_at_once_and_keeps_the_partial_answer(
    voice: Voice, client: ModelClient, notes: Notes
) -> None:
    whole = voice.script(Said(text="Hello there", calls=(("c1", "get_weather", {"city": "Oslo"}),)), stream=True)
    cancel = asyncio.Event()
    half = whole.writes[: len(whole.writes) // 2]
    async with serve_script(replace(whole, writes=half, ending="hang")) as server:
        call = call_to(voice, server.origin, tools=(CITY,))
        sending = asyncio.create_task(ask(client, call, observer=notes, cancel=cancel, capture=True))
        await notes.first_delta.wait()
        cancel.set()
        async with asyncio.timeout(30):
            completion = await sending
            await server.gone.wait()

    response = completion.response
    assert response.cancelled and response.error is None  # D2
    assert response.finish_reason is None
    assert "Hello there".startswith(response.text) and response.text
    assert (response.usage is not None) is voice.usage_up_front  # M1: unknown, not zero
    assert all(not c.executable for c in response.tool_calls)
    assert len(notes.metered) == len(notes.exchanges) == 1


async def test_cancelling_before_the_first_byte_gives_an_empty_response(client: ModelClient) -> None:
    cancel = asyncio.Event()
    cancel.set()
    async with serve_script(Script(whole=False, ending="hang")) as server:
        completion = await ask(client, call_to(CHAT, server.origin), cancel=cancel)

    assert completion.response == ModelResponse(cancelled=True)


async def test_cancelling_ends_the_wait_between_attempts(http: httpx.AsyncClient, notes: Notes) -> None:
    async def sleep_long(seconds: float) -> None:
        notes.sleeping.set()
        await asyncio.Event().wait()

    client, cancel = ModelClient(http=http, sleep=sleep_long), asyncio.Event()
    async with serve_script(refusing(503)) as server:
        sending = asyncio.create_task(ask(client, retrying(CHAT, server.origin), cancel=cancel))
        await notes.sleeping.wait()
        cancel.set()
        async with asyncio.timeout(30):
            completion = await sending

    assert completion.response.cancelled


async def test_a_task_that_is_cancelled_from_outside_stays_cancelled(client: ModelClient, notes: Notes) -> None:
    whole = CHAT.script(HELLO, stream=True)
    async with serve_script(replace(whole, writes=whole.writes[:3], ending="hang")) as server:
        sending = asyncio.create_task(ask(client, call_to(CHAT, server.origin), observer=notes, cancel=asyncio.Event()))
        await notes.first_delta.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        async with asyncio.timeout(30):
            await server.gone.wait()


async def test_the_pieces_of_the_answer_are_handed_on(voice: Voice, client: ModelClient, notes: Notes) -> None:
    async with serve_script(voice.script(HELLO, stream=True)) as server:
        completion = await ask(client, call_to(voice, server.origin), observer=notes)

    heard = {kind: "".join(d.text for d in notes.deltas if d.kind == kind) for kind in ("text", "thinking")}
    assert heard == {"text": "Hello there", "thinking": "Hm, well."}
    assert completion.first_token_ms is not None and completion.thinking_ms is not None
    assert completion.first_token_ms > 0 and completion.thinking_ms >= 0


async def test_half_a_character_is_never_handed_on(client: ModelClient, notes: Notes) -> None:
    whole = CHAT.script(Said(text="ab"), stream=True)
    pieces = [piece.replace(b'"a"', b'"x\\ud83d"').replace(b'"b"', b'"\\ude00"') for piece in whole.writes]
    async with serve_script(replace(whole, writes=pieces)) as server:
        await ask(client, call_to(CHAT, server.origin), observer=notes)

    assert [delta.text for delta in notes.deltas] == ["x", "😀"]


async def test_times_are_unknown_where_nothing_was_streamed(client: ModelClient) -> None:
    async with serve_script(CHAT.script(HELLO, stream=False)) as server:
        completion = await ask(client, call_to(CHAT, server.origin, stream=False))

    assert (completion.first_token_ms, completion.thinking_ms) == (None, None)


async def test_a_call_is_priced_by_its_model(client: ModelClient, notes: Notes) -> None:
    prices = Prices(input=Decimal("2"), cache_read=Decimal("0.5"), output=Decimal("10"))
    async with serve_script(CHAT.script(HELLO, stream=True)) as server:
        priced = await ask(client, call_to(CHAT, server.origin, model={"prices": prices}))
        unpriced = await ask(client, call_to(CHAT, server.origin))

    # 8 fresh tokens, 12 cached ones, 8 of output.
    assert priced.cost == Decimal("0.000102")  # M2
    assert unpriced.cost is None
    assert [cost for _, cost in notes.metered] == [Decimal("0.000102"), None]


@pytest.mark.parametrize("stream", [True, False])
async def test_capture_keeps_what_went_over_the_wire_and_changes_nothing(
    voice: Voice, client: ModelClient, notes: Notes, stream: bool
) -> None:
    said = Said(text="Hello", calls=(("", "get_weather", {"city": "Oslo"}),))
    script = voice.script(said, stream=stream)
    async with serve_script(script) as server:
        call = call_to(voice, server.origin, stream=stream, tools=(CITY,))
        off = await ask(client, call, observer=notes)
        assert notes.exchanges == []
        on = await ask(client, call, observer=notes, capture=True)

    assert on.response == off.response  # T5
    (exchange,) = notes.exchanges
    assert (exchange.attempt, exchange.method, exchange.status) == (1, "POST", 200)
    assert exchange.url == server.received[1].url
    assert exchange.request_body == server.received[1].body
    assert exchange.response_body == b"".join(script.writes)
    assert exchange.response_headers["content-type"] == script.headers["content-type"]
    sent = server.received[1].headers
    assert exchange.request_headers == {**sent, voice.key_header: voice.key_prefix + base.MASK}
    times = [at for at, _ in exchange.chunks]
    assert times == sorted(times) and times[0] >= 0
    assert KEY not in repr(exchange)  # W7


async def test_each_attempt_is_captured(client: ModelClient, notes: Notes) -> None:
    async with serve_script(refusing(503), CHAT.script(HELLO, stream=True)) as server:
        await ask(client, retrying(CHAT, server.origin), observer=notes, capture=True)

    assert [(e.attempt, e.status, bool(e.error)) for e in notes.exchanges] == [(1, 503, True), (2, 200, False)]
    assert json.loads(notes.exchanges[0].response_body) == {"error": {"message": "Not now"}}


async def test_an_attempt_that_found_no_server_is_captured(client: ModelClient, notes: Notes) -> None:
    async with serve_script(refusing(500)) as server:
        origin = server.origin
    await ask(client, call_to(CHAT, origin), observer=notes, capture=True)

    (exchange,) = notes.exchanges
    assert (exchange.status, exchange.chunks) == (None, ())
    assert exchange.error is not None and "connect" in exchange.error.lower()
    assert exchange.request_body and KEY not in repr(exchange)


async def test_a_key_that_the_server_repeats_is_masked_everywhere(
    voice: Voice, client: ModelClient, notes: Notes
) -> None:
    body = json.dumps({"error": {"message": f"Wrong key {KEY}", "code": KEY, "param": KEY}}).encode()
    pieces = [body[:30], body[30 : body.index(KEY.encode()) + 4], body[body.index(KEY.encode()) + 4 :]]
    script = Script(status=401, headers={"www-authenticate": KEY, "x-echo": KEY}, writes=pieces)
    async with serve_script(script) as server:
        completion = await ask(client, call_to(voice, server.origin), observer=notes, capture=True)

    error = completion.response.error
    assert error is not None and error.message == f"Wrong key {base.MASK}"
    assert all(KEY not in text for text in renderings(error).values())  # R1
    assert KEY not in repr(notes.exchanges)
    assert KEY.encode() not in notes.exchanges[0].response_body


@pytest.mark.parametrize("key", ["sk-line\nbreak", "sk-schlüssel", "sk-\x00", "sk-snow☃"])
async def test_a_key_that_no_header_can_hold_is_an_error_that_hides_it(client: ModelClient, key: str) -> None:
    call = call_to(CHAT, UNUSED_ORIGIN, provider={"api_key": Secret(key)})
    completion = await ask(client, call)

    error = completion.response.error
    assert error is not None
    assert (error.kind, error.retryable) == (ErrorKind.AUTHENTICATION, False)
    assert all(re.escape(key)[3:] not in text and key[3:] not in text for text in renderings(error).values())


async def test_a_failed_connection_says_no_key(voice: Voice, client: ModelClient) -> None:
    completion = await ask(client, call_to(voice, UNUSED_ORIGIN))

    error = completion.response.error
    assert error is not None
    assert all(KEY not in text for text in renderings(error).values())


async def test_a_request_goes_to_the_address_of_its_own_provider_only(client: ModelClient) -> None:
    async with serve_script(CHAT.script(HELLO, stream=True)) as server:
        call = call_to(CHAT, server.origin)
        foreign = client.prepare(call_to(CHAT, server.origin + ".evil.example"), client.transcript(call, GO))
        with pytest.raises(ConfigurationError):
            await client.send(call, foreign)

    assert server.received == []  # W6


async def test_a_redirect_is_not_followed(client: ModelClient) -> None:
    async with (
        serve_script(CHAT.script(HELLO, stream=True)) as other,
        serve_script(Script(status=307, headers={"location": other.origin + CHAT.path})) as server,
    ):
        completion = await ask(client, retrying(CHAT, server.origin))

    assert completion.response.error is not None
    assert "redirect" in completion.response.error.message
    assert (len(server.received), other.received) == (1, [])  # W4


async def test_a_response_without_end_is_bounded(client: ModelClient) -> None:
    megabyte = b'{"x":"' + b"x" * (1 << 20)
    async with serve_script(Script(whole=False, writes=[megabyte] * 34)) as server:
        completion = await ask(client, call_to(CHAT, server.origin, stream=False))

    error = completion.response.error
    assert error is not None
    assert (error.kind, "32 MiB" in error.message) == (ErrorKind.MALFORMED_RESPONSE, True)  # W4


async def test_a_line_without_end_is_bounded(voice: Voice, client: ModelClient) -> None:
    whole = voice.script(HELLO, stream=True)
    endless = [*whole.writes[:-3], *[b"data: " + b"x" * (1 << 20)] * 5]
    async with serve_script(replace(whole, writes=endless)) as server:
        completion = await ask(client, call_to(voice, server.origin))

    error = completion.response.error
    assert error is not None
    assert (error.kind, error.message) == (ErrorKind.MALFORMED_RESPONSE, "A line of the stream is too long.")
    assert completion.response.thinking == "Hm, well."


async def test_a_clock_that_is_handed_in_times_the_call(http: httpx.AsyncClient) -> None:
    ticks = iter(range(10_000))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    client = ModelClient(http=http, clock=lambda: next(ticks) / 1000, now=lambda: start + timedelta(days=1))
    async with serve_script(CHAT.script(HELLO, stream=True)) as server:
        completion = await ask(client, call_to(CHAT, server.origin))

    assert completion.first_token_ms is not None
    assert completion.first_token_ms == round(completion.first_token_ms)
