"""Calls of the metered client within budgets: what they reserve, what they settle with, and when they aren't made."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal

import pytest

from llmcore.budgets.base import (
    Allowance,
    Amounts,
    BudgetExceeded,
    BudgetsAway,
    Crossing,
    Measure,
    Need,
    Period,
    Shortage,
)
from llmcore.budgets.run import RunBudgets
from llmcore.configuration import Configuration, Provider
from llmcore.errors import ErrorKind
from llmcore.management.wire_check.server import serve_script
from llmcore.messages import Message, ModelResponse, Part
from llmcore.metering.affording import UNBOUNDED_ANSWER, need_of, used_by
from llmcore.metering.client import ModelClient, open_http
from llmcore.permits.base import Place
from llmcore.providers.base import ModelCall
from llmcore.runs.loop import ToolLoop
from llmcore.runs.state import RunState
from llmcore.turns.request import TurnRequest
from llmcore.turns.turn import take_turn
from llmcore.usage import Prices, Usage
from tests.llmcore.test_model_client import HELLO, Notes, refusing
from tests.llmcore.voices import VOICES, ask, call_to

CHAT = VOICES[0]
PRICES = Prices(input=Decimal(2), cache_creation=Decimal("2.5"), output=Decimal(10))
MODEL = {"max_output_tokens": 100, "prices": PRICES}
NEARLY = Crossing(name="Small", period=Period.DAY, measure=Measure.TOKENS, percent=70, limit=100, used=70)


@dataclass
class MemoryStore:
    """The budgets of one process, where a call may take so many tokens; `away` for so many questions."""

    limit: int = 10**9
    away: int = 0
    reserved: list[Need] = field(default_factory=list)
    settled: list[Amounts | None] = field(default_factory=list)
    held: set[str] = field(default_factory=set)

    def reserve(self, token: str, need: Need, *, within_s: float) -> None:
        self._reach()
        assert 0 < within_s <= 600
        if need.most.tokens > self.limit:
            raise BudgetExceeded(
                Shortage(
                    name="Small",
                    period=Period.DAY,
                    measure=Measure.TOKENS,
                    limit=self.limit,
                    used=0,
                    reserved=0,
                    needed=need.most.tokens,
                    model=need.model,
                )
            )
        self.held.add(token)
        self.reserved.append(need)

    def settle(self, token: str, used: Amounts | None) -> list[Crossing]:
        self._reach()
        if token not in self.held:
            return []
        self.held.remove(token)
        self.settled.append(used)
        return [NEARLY]

    def _reach(self) -> None:
        if self.away:
            self.away -= 1
            raise BudgetsAway("it is away")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def notes() -> Notes:
    return Notes()


@asynccontextmanager
async def within(
    store: MemoryStore | None, notes: Notes, ceiling: Allowance | None = None, *, patience_s: float = 60.0
) -> AsyncIterator[ModelClient]:
    async with open_http() as http, RunBudgets(store, ceiling=ceiling, patience_s=patience_s) as budgets:
        yield ModelClient(http=http, meter=notes, budgets=budgets or None, sleep=notes.sleep, jitter=lambda: 0.0)


async def test_a_turn_and_a_run_that_nobody_records_reserve_the_tokens_of_a_picture_and_not_its_bytes(
    store: MemoryStore, notes: Notes
) -> None:  # M3
    picture = Part(kind="image", media_type="image/png", data=b64encode(bytes(600_000)).decode())
    messages = (Message(role="user", parts=(picture,)),)
    async with within(store, notes) as client, serve_script(*[CHAT.script(HELLO, stream=True)] * 2) as server:
        call = call_to(CHAT, server.origin, model={**MODEL, "supports_images": True})
        configuration = Configuration(slug="c", name="C", provider=call.provider, model=call.model)
        await take_turn(TurnRequest(configuration="c", messages=messages), configuration=configuration, client=client)
        loop = ToolLoop(client=client, provider=call.provider, model=call.model, tools={})
        await loop.run(RunState(messages=messages))

    assert [need.sent.tokens < 5_000 for need in store.reserved] == [True, True]


@dataclass
class Watched(MemoryStore):
    """Budgets whose calls have a permit each, and what happens in which order."""

    events: list[str] = field(default_factory=list)

    def settle(self, token: str, used: Amounts | None) -> list[Crossing]:
        self.events.append("settled")
        return super().settle(token, used)

    def needed(self, provider: Provider) -> bool:
        return True

    async def acquire(self, provider: Provider, told: Callable[[Place], None]) -> Watched:
        self.events.append("granted")
        return self

    def release(self) -> None:
        self.events.append("released")


async def test_a_permit_is_given_back_before_budgets_that_may_be_slow_are_settled(notes: Notes) -> None:  # S3
    store = Watched()
    async with (
        open_http() as http,
        RunBudgets(store) as budgets,
        serve_script(CHAT.script(HELLO, stream=True)) as server,
    ):
        client = ModelClient(http=http, meter=notes, permits=store, budgets=budgets)
        await ask(client, call_to(CHAT, server.origin, model=MODEL))

    assert store.events == ["granted", "released", "settled"] and len(store.settled) == 1


async def test_a_call_reserves_its_most_and_settles_what_was_counted(store: MemoryStore, notes: Notes) -> None:  # M3
    async with within(store, notes) as client, serve_script(CHAT.script(HELLO, stream=True)) as server:
        completion = await ask(client, call_to(CHAT, server.origin, model=MODEL), input_tokens=400)

    usage = completion.response.usage
    (need,) = store.reserved
    # The prompt at the price of writing it into a cache, which is the dearest.
    assert need.most == Amounts(requests=1, tokens=500, cost=(400 * Decimal("2.5") + 100 * 10) / 1_000_000)
    assert need.sent == Amounts(requests=1, tokens=400, cost=Decimal("0.0008"))
    assert store.settled == [Amounts(requests=1, tokens=usage.input_tokens + usage.output_tokens, cost=completion.cost)]
    assert completion.crossings == (NEARLY,)


async def test_a_call_that_does_not_fit_is_not_made(store: MemoryStore, notes: Notes) -> None:  # M3
    store.limit = 499
    async with within(store, notes) as client, serve_script(CHAT.script(HELLO, stream=True)) as server:
        completion = await ask(client, call_to(CHAT, server.origin, model=MODEL), input_tokens=400)

    error = completion.response.error
    assert (error.kind, completion.attempts) == (ErrorKind.BUDGET, 0)
    assert "may take up to 500." in error.message and "Raise the budget" in error.advice
    assert not server.received and not notes.metered and not store.held


async def test_each_attempt_reserves_for_itself(store: MemoryStore, notes: Notes) -> None:  # M3
    script = CHAT.script(HELLO, stream=True)
    async with within(store, notes) as client, serve_script(refusing(503), script) as server:
        call = call_to(CHAT, server.origin, model=MODEL, provider={"max_attempts": 2})
        completion = await ask(client, call, input_tokens=400)

    assert completion.attempts == 2 and len(store.reserved) == 2
    # Who is refused has used no tokens.
    assert store.settled[0] == Amounts(requests=1) and len(completion.crossings) == 2


async def test_a_second_attempt_that_does_not_fit_ends_the_call(store: MemoryStore, notes: Notes) -> None:  # M3
    async def spend(seconds: float) -> None:
        store.limit = 0

    async with (
        open_http() as http,
        RunBudgets(store) as budgets,
        serve_script(refusing(503)) as server,
    ):
        client = ModelClient(http=http, meter=notes, budgets=budgets, sleep=spend)
        call = call_to(CHAT, server.origin, model=MODEL, provider={"max_attempts": 3})
        completion = await ask(client, call, input_tokens=400)

    assert (completion.response.error.kind, completion.attempts) == (ErrorKind.BUDGET, 1)
    assert len(server.received) == len(notes.metered) == 1


async def test_a_stream_that_was_broken_off_is_not_nothing(store: MemoryStore, notes: Notes) -> None:  # M1, M3
    whole = CHAT.script(HELLO, stream=True)
    cut = replace(whole, writes=whole.writes[:-3], ending="hang")
    cancel = asyncio.Event()
    async with within(store, notes) as client, serve_script(cut) as server:
        call = call_to(CHAT, server.origin, model=MODEL)
        sending = asyncio.create_task(ask(client, call, input_tokens=400, observer=notes, cancel=cancel))
        await notes.first_delta.wait()
        cancel.set()
        completion = await sending

    (used,) = store.settled
    assert completion.response.cancelled and completion.response.usage is None and used is not None
    assert 400 < used.tokens < 500 and used.cost is not None and used.cost > Decimal("0.0008")


async def test_a_task_that_is_ended_from_outside_leaves_what_was_sent(store: MemoryStore, notes: Notes) -> None:  # M3
    whole = CHAT.script(HELLO, stream=True)
    async with within(store, notes) as client, serve_script(replace(whole, writes=(), ending="hang")) as server:
        call = call_to(CHAT, server.origin, model=MODEL)
        sending = asyncio.create_task(ask(client, call, observer=notes, cancel=asyncio.Event()))
        while not server.received:
            await asyncio.sleep(0.01)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending

    assert store.settled == [None] and not store.held


async def test_a_store_that_is_back_soon_is_waited_for(store: MemoryStore, notes: Notes) -> None:  # M3
    store.away = 2
    async with within(store, notes) as client, serve_script(CHAT.script(HELLO, stream=True)) as server:
        completion = await ask(client, call_to(CHAT, server.origin, model=MODEL))
    assert completion.response.error is None and len(store.settled) == 1


async def test_without_an_answer_of_the_store_no_call_is_made(store: MemoryStore, notes: Notes) -> None:  # M3
    store.away = 1_000
    async with within(store, notes, patience_s=0.6) as client, serve_script(CHAT.script(HELLO, stream=True)) as server:
        completion = await ask(client, call_to(CHAT, server.origin, model=MODEL))
    assert completion.response.error.kind is ErrorKind.BUDGETS_AWAY
    assert "not made" in completion.response.error.message and not server.received


async def test_who_cancels_while_the_store_is_away_waits_no_longer(store: MemoryStore, notes: Notes) -> None:  # M3
    store.away, cancel = 1_000, asyncio.Event()
    async with (
        open_http() as http,
        RunBudgets(store, patience_s=600) as budgets,
        serve_script(CHAT.script(HELLO, stream=True)) as server,
    ):
        client = ModelClient(http=http, meter=notes, budgets=budgets)
        sending = asyncio.create_task(ask(client, call_to(CHAT, server.origin), cancel=cancel))
        while store.away > 998:
            await asyncio.sleep(0.01)
        cancel.set()
        completion = await sending
    assert completion.response.cancelled and completion.attempts == 0 and not server.received


async def test_a_run_ends_before_the_call_that_might_pass_its_ceiling(notes: Notes) -> None:  # M3
    script = CHAT.script(HELLO, stream=True)
    async with within(None, notes, Allowance(tokens=600)) as client, serve_script(script) as server:
        call = call_to(CHAT, server.origin, model=MODEL)
        first = await ask(client, call, input_tokens=400)
        second = await ask(client, call, input_tokens=600)
    assert first.response.error is None
    error = second.response.error
    assert error.kind is ErrorKind.BUDGET and "One run may take 600 tokens: 28 used" in error.message
    assert "in its configuration" in error.advice


async def test_the_ceiling_of_a_run_tells_once_what_part_of_it_is_used(notes: Notes) -> None:  # M3
    script = CHAT.script(HELLO, stream=True)
    async with within(None, notes, Allowance(tokens=10_000)) as client, serve_script(script) as server:
        call = call_to(CHAT, server.origin, model=MODEL)
        used = (await ask(client, call, input_tokens=10)).response.usage
    total = used.input_tokens + used.output_tokens
    async with within(None, notes, Allowance(tokens=total * 4 // 3)) as client, serve_script(script) as server:
        call = call_to(CHAT, server.origin, model={"max_output_tokens": 1, "prices": PRICES})
        crossings = (await ask(client, call, input_tokens=1)).crossings
    assert [(item.name, item.percent, item.used) for item in crossings] == [("", 70, total)]


async def test_a_cost_that_nobody_knows_fits_no_ceiling(notes: Notes) -> None:  # M3
    async with (
        within(None, notes, Allowance(cost=Decimal(5))) as client,
        serve_script(CHAT.script(HELLO, stream=True)) as server,
    ):
        completion = await ask(client, call_to(CHAT, server.origin))
    assert "has no price" in completion.response.error.message and not server.received


def test_nothing_limited_is_no_budget() -> None:
    assert not RunBudgets() and not RunBudgets(ceiling=Allowance()) and RunBudgets(ceiling=Allowance(tokens=1))


def test_what_nobody_counted_and_nothing_bounds_is_reserved_by_size() -> None:  # M3
    call: ModelCall = call_to(CHAT, "http://127.0.0.1:9")
    assert need_of(call, input_tokens=None, body_bytes=3_001).most.tokens == 1_001 + UNBOUNDED_ANSWER
    assert need_of(call, input_tokens=None, body_bytes=3_001).most.cost is None


@pytest.mark.parametrize("count", [-1, 2**40])
def test_a_count_that_can_not_be_is_not_believed(count: int) -> None:  # M1
    call: ModelCall = call_to(CHAT, "http://127.0.0.1:9", model=MODEL)
    need = need_of(call, input_tokens=400, body_bytes=0)
    response = ModelResponse(usage=Usage(input_tokens=count, output_tokens=7))
    assert used_by(call.model, response, prompt=need.sent.tokens).tokens == 407
