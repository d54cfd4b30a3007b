"""What stands in line for permits: the line itself, and the metered client that gets its permits from it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from llmcore.configuration import LanguageModel
from llmcore.errors import ConfigurationError, ErrorKind, ProviderError
from llmcore.management.wire_check.server import Script, serve_script
from llmcore.messages import Delta
from llmcore.metering.client import ModelClient, open_http
from llmcore.permits.base import Ceiling, Place
from llmcore.permits.line import PermitLine
from llmcore.providers.scripted import Turn
from llmcore.runs.loop import ToolLoop
from llmcore.tools.base import Effect
from llmcore.trace import RunStep, RunTrace, StepKind, WireExchange
from tests.llmcore.conftest import LoopBench
from tests.llmcore.conftest import call as tool_call
from tests.llmcore.permit_stores import MemoryTickets, line_over, provider, until
from tests.llmcore.test_fallback import route, run, say
from tests.llmcore.voices import VOICES, Said, ask, call_to


@pytest.mark.parametrize("limit", [0, -1])
@pytest.mark.parametrize("which", ["calls", "total"])
def test_a_limit_that_lets_no_call_through_is_refused(which: str, limit: int) -> None:  # S1
    with pytest.raises(ConfigurationError, match="lets none through"):
        Ceiling(**{which: limit})


async def test_a_permit_is_renewed_while_it_is_held_and_no_longer() -> None:  # S4
    store = MemoryTickets(lease_s=0.03)
    async with line_over(store, Ceiling(calls=1)) as line:
        permit = await line.acquire(provider(), lambda place: None)
        assert permit is not None
        await until(lambda: len(store.looks) >= 4)
        assert all(look.held for look in store.looks[1:])
        permit.release()
        await until(lambda: not store.tickets())
        seen = len(store.looks)
        again = await line.acquire(provider(), lambda place: None)
        assert again is not None
        assert seen + 1 == len(store.looks)
        permit.release()
        await asyncio.sleep(0)
        assert len(store.tickets()) == 1, "a permit is given back once"
        again.release()


async def test_a_store_that_is_away_lets_no_call_through() -> None:  # S4: fail closed
    store = MemoryTickets()
    store.away = True
    told: list[Place] = []
    async with line_over(store, Ceiling(calls=1)) as line:
        waiting = asyncio.create_task(line.acquire(provider(), told.append))
        await until(lambda: told)
        assert told == [Place(away=True)] and not waiting.done()
        store.away = False
        permit = await waiting
        assert permit is not None
        # What can't be given back now ends with its lease: nobody has to wait for that.
        store.away = True
        permit.release()


async def test_a_provider_without_a_limit_costs_nothing() -> None:
    store = MemoryTickets()
    threads = set(threading.enumerate())
    async with (
        PermitLine(store, ceiling_of=lambda provider: pytest.fail("nobody asks")) as line,
        open_http() as http,
        serve_script(WHOLE) as server,
    ):
        completion = await ask(ModelClient(http=http, permits=line), call_to(CHAT, server.origin))
    assert completion.response.text == "Hello there"
    assert not store.looks
    assert not [thread for thread in set(threading.enumerate()) - threads if thread.name.startswith("permits")]


async def test_a_limit_that_is_lifted_lets_those_who_wait_go() -> None:
    store = MemoryTickets(lease_s=0.03)
    ceiling = Ceiling(calls=1)
    async with PermitLine(store, ceiling_of=lambda provider: ceiling, total=5) as line:
        first = await line.acquire(provider(), lambda place: None)
        told: list[Place] = []
        waiting = asyncio.create_task(line.acquire(provider(), told.append))
        await until(lambda: told)
        ceiling = Ceiling()
        assert await waiting is None
        assert first is not None
        first.release()
        await until(lambda: not store.tickets())


# --- the metered client ---


class Watcher:
    """An observer that writes down what it is told of waiting, and breaks where it is told to."""

    def __init__(self, *, broken: bool = False) -> None:
        self.places: list[Place] = []
        self.waits: list[tuple[int, int, bool]] = []
        self.first_delta = asyncio.Event()
        self._broken = broken

    def delta(self, delta: Delta) -> None:
        self.first_delta.set()
        if self._broken:
            raise RuntimeError("a fault of ours")

    def waiting(self, place: Place) -> None:
        self.places.append(place)

    def waited(self, place: Place, waited_ms: float, *, attempt: int, granted: bool) -> None:
        if self._broken:
            raise RuntimeError("a fault of ours")
        assert waited_ms > 0
        self.waits.append((attempt, place.position, granted))

    def retry(self, attempt: int, error: ProviderError, wait_s: float) -> None: ...

    def exchange(self, exchange: WireExchange) -> None: ...


@pytest.fixture
def store() -> MemoryTickets:
    return MemoryTickets()


@pytest.fixture
async def line(store: MemoryTickets) -> AsyncIterator[PermitLine]:
    async with line_over(store, Ceiling(calls=1)) as line:
        yield line


@pytest.fixture
async def client(line: PermitLine) -> AsyncIterator[ModelClient]:
    async with open_http() as http:
        yield ModelClient(http=http, permits=line)


CHAT = VOICES[0]
HELLO = Said(text="Hello there", thinking="Hm, well.")
WHOLE = CHAT.script(HELLO, stream=True)
ENDLESS = replace(WHOLE, writes=WHOLE.writes[:-3], ending="hang")
BUSY = Script(status=503, headers={"content-type": "application/json"}, writes=[b'{"error": {"message": "Busy"}}'])


@pytest.mark.parametrize(
    ("script", "kind", "provider"),
    [
        (WHOLE, None, {}),
        (BUSY, ErrorKind.OVERLOADED, {}),
        (Script(status=200, writes=[b"<html>"]), ErrorKind.MALFORMED_RESPONSE, {}),
        (replace(WHOLE, writes=WHOLE.writes[:-3], ending="reset"), ErrorKind.STREAM_INCOMPLETE, {}),
        (ENDLESS, ErrorKind.TIMEOUT, {"total_timeout_s": 0.3}),
        (Script(whole=False, ending="hang"), ErrorKind.TIMEOUT, {"read_timeout_s": 0.05}),
    ],
    ids=["success", "error", "malformed", "cut", "deadline", "silence"],
)
async def test_a_permit_comes_back_however_the_call_ends(
    client: ModelClient, store: MemoryTickets, script: Script, kind: ErrorKind | None, provider: dict[str, Any]
) -> None:  # S2
    async with serve_script(script) as server:
        completion = await ask(client, call_to(CHAT, server.origin, provider=provider))
    error = completion.response.error
    assert (error.kind if error else None) is kind
    assert len(store.looks) == 1
    await until(lambda: not store.tickets())


async def test_a_permit_comes_back_when_the_call_is_cancelled_in_its_stream(
    client: ModelClient, store: MemoryTickets
) -> None:  # S2, D2
    cancel, watcher = asyncio.Event(), Watcher()
    async with serve_script(ENDLESS) as server:
        asking = asyncio.create_task(ask(client, call_to(CHAT, server.origin), observer=watcher, cancel=cancel))
        await watcher.first_delta.wait()
        assert store.tickets()
        cancel.set()
        assert (await asking).response.cancelled
    await until(lambda: not store.tickets())


async def test_a_permit_comes_back_from_a_fault_of_our_own(client: ModelClient, store: MemoryTickets) -> None:  # S2
    async with serve_script(WHOLE) as server:
        with pytest.raises(RuntimeError, match="a fault of ours"):
            await ask(client, call_to(CHAT, server.origin), observer=Watcher(broken=True))
    await until(lambda: not store.tickets())


async def test_a_permit_comes_back_from_a_fault_right_after_it_was_granted(
    client: ModelClient, line: PermitLine, store: MemoryTickets
) -> None:  # S2
    held, watcher = await line.acquire(provider("test"), lambda place: None), Watcher(broken=True)
    async with serve_script(WHOLE) as server:
        asking = asyncio.create_task(ask(client, call_to(CHAT, server.origin), observer=watcher))
        await until(lambda: watcher.places)
        assert held is not None
        held.release()
        with pytest.raises(RuntimeError, match="a fault of ours"):
            await asking
        assert not server.received
    await until(lambda: not store.tickets())


async def test_a_permit_comes_back_from_a_task_that_is_told_to_end(
    client: ModelClient, store: MemoryTickets
) -> None:  # S2
    watcher = Watcher()
    async with serve_script(ENDLESS) as server:
        asking = asyncio.create_task(ask(client, call_to(CHAT, server.origin), observer=watcher))
        await watcher.first_delta.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    await until(lambda: not store.tickets())


async def test_a_call_that_is_cancelled_while_it_waits_was_never_sent(
    client: ModelClient, line: PermitLine, store: MemoryTickets
) -> None:  # S2, D2
    held = await line.acquire(provider("test"), lambda place: None)
    cancel, watcher = asyncio.Event(), Watcher()
    async with serve_script(WHOLE) as server:
        asking = asyncio.create_task(ask(client, call_to(CHAT, server.origin), observer=watcher, cancel=cancel))
        await until(lambda: watcher.places)
        cancel.set()
        completion = await asking
        assert not server.received
    assert completion.response.cancelled and completion.attempts == 0
    assert watcher.waits == [(1, 1, False)]
    await until(lambda: len(store.tickets()) == 1)
    assert held is not None
    held.release()


async def test_no_permit_is_held_while_a_retry_is_waited_for(line: PermitLine, store: MemoryTickets) -> None:  # S3
    async def sleep(seconds: float) -> None:
        await until(lambda: not store.tickets())

    async with open_http() as http, serve_script(BUSY, BUSY, WHOLE) as server:
        client = ModelClient(http=http, permits=line, sleep=sleep)
        completion = await ask(client, call_to(CHAT, server.origin, provider={"max_attempts": 3}))
    assert (completion.response.text, completion.attempts) == ("Hello there", 3)
    assert len({look.token for look in store.looks}) == 3, "each attempt has a permit of its own"


async def test_waiting_for_a_permit_is_told_and_takes_nothing_of_the_calls_time(
    line: PermitLine,
) -> None:
    watcher, hours = Watcher(), [0]
    held = await line.acquire(provider("test"), lambda place: None)
    assert held is not None
    async with open_http() as http, serve_script(WHOLE) as server:
        client = ModelClient(http=http, permits=line, clock=lambda: hours[0] * 3600.0)
        asking = asyncio.create_task(ask(client, call_to(CHAT, server.origin), observer=watcher))
        await until(lambda: watcher.places)
        hours[0] = 1
        held.release()
        completion = await asking
    assert completion.response.text == "Hello there", "its deadline counts from its permit"
    assert watcher.places == [Place(order=2, position=1, waiting=1)]
    assert watcher.waits == [(1, 1, True)]
    assert (completion.queued_ms, completion.first_token_ms) == (3_600_000, 0)


# --- the loop ---


async def test_a_tool_may_call_a_model_where_only_one_call_may_be_in_flight(
    bench: LoopBench, line: PermitLine, store: MemoryTickets
) -> None:  # S3
    bench.client = ModelClient(http=bench.client._http, permits=line)
    say(bench, "inner", Turn(text="Forty-two."))

    @bench.tools.tool(effect=Effect.READ_ONLY)
    async def ask_another() -> str:
        """Ask another model."""
        await until(lambda: not store.tickets())
        model = LanguageModel(name="inner")
        inner = ToolLoop(client=bench.client, provider=bench.provider, model=model, tools={})
        end = await inner.run(bench.state(offered=[]))
        return end.outcome.answer if end.outcome else ""

    bench.script(Turn(tool_calls=(tool_call("ask_another"),)), Turn(text="It is forty-two."))
    async with asyncio.timeout(30):
        end = await bench.run()
    assert end.outcome is not None and end.outcome.answer == "It is forty-two."
    assert bench.results_sent() == ["Forty-two."]
    assert len({look.token for look in store.looks}) == 3


async def test_each_model_that_is_asked_in_turn_has_a_permit_of_its_own(
    bench: LoopBench, line: PermitLine, store: MemoryTickets
) -> None:  # S3
    client = ModelClient(http=bench.client._http, permits=line)
    say(bench, "first", Turn(status=429, error="Slow down."))
    say(bench, "second", Turn(text="Here I am."))
    async with asyncio.timeout(30):
        end = await run(bench, route(bench, "first"), route(bench, "second"), client=client)
    assert end.outcome is not None and end.outcome.answer == "Here I am."
    assert [look.provider for look in store.looks] == ["at-first", "at-second"]
    await until(lambda: not store.tickets())


async def test_a_wait_is_a_step_of_its_own_that_the_call_does_not_count_again(
    bench: LoopBench, line: PermitLine
) -> None:  # T2, S4
    hours, listener = [0], Positions()
    bench.client = ModelClient(http=bench.client._http, permits=line, clock=lambda: hours[0] * 3600.0)
    bench.trace = RunTrace(listener, clock=lambda: hours[0] * 3600.0)
    bench.script(Turn(text="Good day."))
    held = await line.acquire(provider("scripted"), lambda place: None)
    assert held is not None
    running = asyncio.create_task(bench.run())
    await until(lambda: listener.places)
    hours[0] = 1
    held.release()
    await running
    (request,), (permit,), (response,) = map(bench.steps, (StepKind.REQUEST, StepKind.PERMIT, StepKind.RESPONSE))
    assert request.sequence < permit.sequence < response.sequence
    assert listener.places == [(1, {"provider": "scripted", "position": 1, "waiting": 1})]
    assert permit.data == {"provider": "scripted", "attempt": 1, "position": 1, "waiting": 1, "granted": True}
    assert (permit.started_ms, permit.duration_ms) == (0, 3_600_000)
    assert (response.started_ms, response.duration_ms) == (3_600_000, 0)


async def test_a_call_that_got_its_permit_at_once_leaves_no_step(bench: LoopBench, line: PermitLine) -> None:
    bench.client = ModelClient(http=bench.client._http, permits=line)
    bench.script(Turn(text="Good day."))
    await bench.run()
    assert bench.steps(StepKind.RESPONSE) and not bench.steps(StepKind.PERMIT)


class Positions:
    """A listener that hears where calls stand in line."""

    def __init__(self) -> None:
        self.places: list[tuple[int, Mapping[str, Any]]] = []

    def waiting(self, round: int, place: Mapping[str, Any]) -> None:
        self.places.append((round, place))

    def step(self, step: RunStep, contents: Mapping[str, Any]) -> None: ...

    def delta(self, round: int, delta: Delta) -> None: ...

    def exchange(self, sequence: int, exchange: WireExchange) -> None: ...

    async def committed(self) -> None: ...
