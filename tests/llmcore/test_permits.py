"""The contract of permits, held by each store that there is, with real processes and a real Redis."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from django.db import connections

from llmcore.permits.base import Ceiling, Place, Ticket, TicketStore
from llmcore.permits.line import PermitLine
from tests.llmcore.permit_stores import (
    DATABASE,
    Caller,
    forget_all,
    line_over,
    open_store,
    provider,
    ticket,
    until,
)
from tests.playground.beside import environment_beside
from tests.playground.driven import wait_for
from tests.services import Redis

pytestmark = pytest.mark.django_db(transaction=True)

LONG_S = 60.0
# Long enough that a busy machine doesn't let it end between two signs of life.
SHORT_S = 3.0

OpenStore = Callable[..., TicketStore]
StartCaller = Callable[..., Caller]


@pytest.fixture(params=[DATABASE, "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == DATABASE:
        return DATABASE
    url: str = request.getfixturevalue("redis_url")
    forget_all(url)
    return url


@pytest.fixture
def store(kind: str) -> TicketStore:
    return open_store(kind, LONG_S)


@pytest.fixture
def start_caller(kind: str, tmp_path: Path) -> Iterator[StartCaller]:
    environment = environment_beside(tmp_path) if kind == DATABASE else {}
    started: list[Caller] = []

    def start(**options: object) -> Caller:
        started.append(Caller(kind, environment, **options))
        return started[-1]

    yield start
    for caller in started:
        if caller.process.poll() is None:
            caller.kill()


def database_line(store: TicketStore, ceiling: Ceiling) -> PermitLine:
    return line_over(store, ceiling, close=connections.close_all)


def enter(store: TicketStore, *tickets: Ticket) -> list[Place]:
    return [store.look(each) for each in tickets]


def held(store: TicketStore) -> list[str]:
    return [each.token for each in store.tickets() if each.held]


def positions(store: TicketStore, *tickets: Ticket) -> list[int]:
    return [store.look(each).position for each in tickets]


# --- limits ---


def test_no_more_calls_are_in_flight_than_may_be(store: TicketStore) -> None:  # S1
    calls = [ticket(calls=2) for _ in range(5)]
    enter(store, *calls)
    assert positions(store, *calls) == [0, 0, 1, 2, 3]
    assert held(store) == [calls[0].token, calls[1].token]


def test_each_provider_has_a_limit_of_its_own(store: TicketStore) -> None:  # S1
    ones, others = [ticket("one") for _ in range(2)], [ticket("other", calls=2) for _ in range(3)]
    assert [place.position for place in enter(store, *ones, *others)] == [0, 1, 0, 0, 1]


def test_the_limit_of_the_site_counts_the_calls_of_all_providers(store: TicketStore) -> None:  # S1
    calls = [ticket(slug, calls=None, total=2) for slug in ("one", "other", "third")]
    first, second, third = enter(store, *calls)
    assert (first.position, second.position) == (0, 0)
    assert (third.position, third.waiting, third.of_site) == (1, 1, True)


# --- first come, first served ---


def test_permits_are_granted_in_the_order_in_which_calls_came(store: TicketStore) -> None:  # S2
    calls = [ticket() for _ in range(5)]
    enter(store, *calls)
    # Who looks most often has no advantage.
    positions(store, *reversed(calls))
    served = []
    for _ in calls:
        (token,) = held(store)
        served.append(token)
        store.leave(token)
    assert served == [call.token for call in calls]
    assert store.tickets() == []


def test_a_free_permit_goes_to_who_waits_and_not_to_who_comes(store: TicketStore) -> None:  # S2
    first, waiting, late = ticket(), ticket(), ticket()
    enter(store, first, waiting)
    store.leave(first.token)
    assert store.look(late).position == 1
    assert held(store) == [waiting.token]


def test_a_call_that_gives_up_lets_the_others_move_up(store: TicketStore) -> None:  # S2
    calls = [ticket() for _ in range(4)]
    enter(store, *calls)
    store.leave(calls[1].token)
    assert positions(store, calls[2], calls[3]) == [1, 2]
    assert held(store) == [calls[0].token]


def test_a_call_that_gives_up_after_its_permit_was_granted_gives_it_on(store: TicketStore) -> None:  # S2
    first, second, third = calls = [ticket() for _ in range(3)]
    enter(store, *calls)
    store.leave(first.token)
    assert held(store) == [second.token], "and it doesn't know yet"
    store.leave(second.token)
    assert held(store) == [third.token]


def test_leaving_twice_frees_no_second_permit(store: TicketStore) -> None:  # S4: release by own id
    calls = [ticket() for _ in range(3)]
    enter(store, *calls)
    store.leave(calls[0].token)
    store.leave(calls[0].token)
    store.leave("somebody-else")
    assert held(store) == [calls[1].token]


def test_a_call_that_waits_for_its_provider_holds_up_no_other_provider(store: TicketStore) -> None:  # S2
    enter(store, ticket("one", total=3), waiting := ticket("one", total=3))
    assert store.look(ticket("other", total=3)).position == 0
    assert store.look(waiting).position == 1


def test_the_last_permit_of_the_site_goes_to_who_came_first_among_all_providers(store: TicketStore) -> None:  # S2
    one, other = ticket("one", total=2), ticket("other", calls=2, total=2)
    waiting, late = ticket("one", total=2), ticket("other", calls=2, total=2)
    enter(store, one, other, waiting, late)
    # Now the site has room, but not for the first in line, whose provider has none.
    store.leave(other.token)
    assert held(store) == [one.token, late.token]
    enter(store, later := ticket("other", calls=2, total=2))
    # What is given back of its provider is given back of the site as well: nobody took it before.
    store.leave(one.token)
    assert held(store) == [late.token, waiting.token]
    assert store.look(later).position == 1


def test_no_call_overtakes_another_one_to_the_same_provider(store: TicketStore) -> None:  # S2
    """Not even where its run began before the limit was lowered."""
    first, second = ticket(calls=2), ticket(calls=2)
    strict, generous = ticket(calls=1), ticket(calls=5)
    enter(store, first, second, strict, generous)
    store.leave(first.token)
    assert held(store) == [second.token]
    assert positions(store, strict, generous) == [1, 2]


def test_a_limit_that_changes_holds_for_those_who_wait(store: TicketStore) -> None:
    first, second = ticket(), ticket()
    enter(store, first, second)
    assert store.look(replace(second, ceiling=Ceiling(calls=2))).position == 0


# --- where a call stands ---


def test_a_place_is_told_among_the_calls_that_wait_for_the_same(store: TicketStore) -> None:
    enter(store, ticket("one", total=4), ticket("other", total=4))
    ones = [ticket("one", total=4) for _ in range(3)]
    enter(store, ones[0], ticket("other", total=4), ones[1], ones[2])
    place = store.look(ones[1])
    assert (place.position, place.waiting, place.of_site) == (2, 3, False)


def test_a_call_that_only_the_site_holds_up_stands_in_the_line_of_all(store: TicketStore) -> None:
    enter(store, ticket("one", total=1))
    enter(store, *(ticket("other", calls=3, total=1) for _ in range(2)))
    place = store.look(ticket("third", calls=3, total=1))
    assert (place.position, place.waiting, place.of_site) == (3, 3, True)


def test_all_calls_can_be_listed_with_the_runs_that_they_are_for(store: TicketStore) -> None:
    first, second, third = ticket(run_id=7), ticket(run_id=8), ticket("other")
    enter(store, first, second, third)
    listed = store.tickets()
    assert [(each.token, each.run_id, each.held) for each in listed] == [
        (first.token, 7, True),
        (third.token, None, True),
        (second.token, 8, False),
    ]
    assert [each.provider for each in listed] == ["one", "other", "one"]
    assert all(each.since > 1_700_000_000_000_000 for each in listed)


# --- leases ---


def test_who_is_not_heard_of_any_more_loses_permit_and_place(kind: str, store: TicketStore) -> None:  # S4
    dying = open_store(kind, 0.2)
    enter(dying, dead := ticket())
    enter(dying, dead_too := ticket())
    alive = ticket()
    enter(store, alive)
    wait_for(lambda: store.look(alive).position == 0, "the leases to end")
    assert held(store) == [alive.token]
    assert {each.token for each in store.tickets()}.isdisjoint({dead.token, dead_too.token})


def test_a_call_whose_place_was_lost_gets_it_again(store: TicketStore) -> None:  # S2, S4
    first, second, third = calls = [ticket() for _ in range(3)]
    places = enter(store, *calls)
    store.leave(second.token)
    assert positions(store, replace(third, order=places[2].order)) == [1]
    # It was not gone, only not heard of: it comes back with the order that it was told.
    assert positions(store, replace(second, order=places[1].order), third) == [1, 2]
    store.leave(first.token)
    assert held(store) == [second.token]


def test_a_call_in_flight_whose_permit_was_lost_counts_again(store: TicketStore) -> None:  # S4
    first, second = ticket(), ticket()
    place, _ = enter(store, first, second)
    store.leave(first.token)
    assert held(store) == [second.token]
    # Then there are more in flight than may be, which nobody can undo; but no further one goes.
    assert store.look(replace(first, order=place.order, held=True)).position == 0
    assert set(held(store)) == {first.token, second.token}
    store.leave(second.token)
    assert store.look(ticket()).position == 1


# --- many at once ---


async def test_whatever_is_cancelled_when_all_permits_come_back(store: TicketStore) -> None:  # S2
    in_flight = most = done = 0

    async def call(line: PermitLine, wait_s: float) -> None:
        nonlocal in_flight, most, done
        await asyncio.sleep(wait_s)
        permit = await line.acquire(provider(), lambda place: None)
        assert permit is not None
        try:
            in_flight += 1
            most = max(most, in_flight)
            await asyncio.sleep(wait_s)
            done += 1
        finally:
            in_flight -= 1
            permit.release()

    chance = random.Random(7)
    async with database_line(store, Ceiling(calls=2)) as line:
        tasks = [asyncio.create_task(call(line, chance.random() * 0.02)) for _ in range(30)]
        for task in chance.sample(tasks, 15):
            await asyncio.sleep(chance.random() * 0.02)
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(result) for result in results} <= {type(None), asyncio.CancelledError}
    assert done >= 15 and most <= 2
    with ThreadPoolExecutor(1) as thread:
        assert await asyncio.get_running_loop().run_in_executor(thread, partial(left_behind, store)) == []


def left_behind(store: TicketStore) -> list[Ticket]:
    try:
        return store.tickets()
    finally:
        connections.close_all()


def test_the_ceiling_holds_over_processes(start_caller: StartCaller, tmp_path: Path) -> None:  # S1, S4
    folder = tmp_path / "held"
    folder.mkdir()
    callers = [start_caller(limit=2, calls=3, times=3, hold=0.01, folder=folder) for _ in range(3)]
    assert [caller.ends() for caller in callers] == [0, 0, 0]
    assert not list(folder.iterdir())


def test_a_permit_of_a_killed_process_is_given_on(start_caller: StartCaller) -> None:  # S2, S4
    holder = start_caller(lease=SHORT_S)
    assert holder.says() == "held"
    waiter = start_caller(lease=SHORT_S)
    assert waiter.says() == "waiting 1"
    holder.kill()
    assert waiter.says() == "held"


def test_a_killed_process_that_waited_holds_up_nobody(store: TicketStore, start_caller: StartCaller) -> None:  # S2, S4
    enter(store, first := ticket())
    dying = start_caller(lease=SHORT_S)
    assert dying.says() == "waiting 1"
    waiter = start_caller(lease=SHORT_S)
    assert waiter.says() == "waiting 2"
    dying.kill()
    assert waiter.says() == "waiting 1"
    store.leave(first.token)
    assert waiter.says() == "held"


# --- Redis is restarted ---


async def test_the_ceiling_and_the_order_survive_a_restart_of_redis(server: Redis) -> None:  # S4
    url = f"redis://127.0.0.1:{server.port}/0"
    forget_all(url)
    store = open_store(url, 3.0)
    told: dict[str, list[Place]] = {"second": [], "third": []}
    served: list[str] = []

    async def wait(line: PermitLine, name: str) -> None:
        permit = await line.acquire(provider(), told[name].append)
        served.append(name)
        assert permit is not None
        permit.release()

    async with line_over(store, Ceiling(calls=1)) as line, asyncio.timeout(60):
        permit = await line.acquire(provider(), lambda place: None)
        assert permit is not None
        waiting = [asyncio.create_task(wait(line, "second"))]
        await until(lambda: told["second"])
        waiting.append(asyncio.create_task(wait(line, "third")))
        await until(lambda: told["third"])

        await asyncio.to_thread(server.stop)
        await until(lambda: told["second"][-1].away and told["third"][-1].away)
        await asyncio.to_thread(server.start)
        await until(lambda: not told["second"][-1].away and not told["third"][-1].away)
        await until(lambda: len(store.tickets()) == 3)
        assert not served, "the permit is held, although Redis had forgotten it"
        # The one who looked first was the first in line until the others had come back.
        await until(lambda: [places[-1].position for places in told.values()] == [1, 2])
        assert any(place.recounting for place in told["second"])

        permit.release()
        await asyncio.gather(*waiting)
    assert served == ["second", "third"]


def test_a_redis_that_has_just_begun_waits_for_those_who_hold_permits(redis_url: str) -> None:  # S4
    forget_all(redis_url, just_now=True)
    store = open_store(redis_url, SHORT_S)
    late, holder = ticket(), ticket()
    assert store.look(late).recounting
    # It held its permit before Redis was started anew.
    assert store.look(replace(holder, held=True)).position == 0
    keep = partial(store.look, replace(holder, held=True))
    wait_for(lambda: keep() and not store.look(late).recounting, "the end of recounting")
    assert held(store) == [holder.token]
    store.leave(holder.token)
    assert held(store) == [late.token]
