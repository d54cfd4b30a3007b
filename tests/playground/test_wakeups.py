"""Watchers are woken over a real Redis, told nothing but the run's number, and do without it where it is away."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest
import redis
from django.db import transaction
from django.utils import timezone
from pytest_django import Settings

from llmcore.providers.scripted.scenario import Turn
from playground import wakeups
from playground.models import Run
from playground.services.cancel_run import cancel_run
from playground.services.continue_run import requeue_interrupted
from playground.services.start_run import write_run
from playground.services.sweep import sweep
from playground.wakeups import Caller, Wakeups, channel_of
from tests.playground.driven import call, script
from tests.services import Redis

RUN = 41
# Of a busy machine, and far below what a watcher waits that nothing wakes.
SOON_S = 20.0


def url_of(server: Redis) -> str:
    return f"redis://127.0.0.1:{server.port}/0"


async def timed(wait: Callable[[], Awaitable[None]]) -> float:
    started = time.monotonic()
    await wait()
    return time.monotonic() - started


@pytest.fixture(autouse=True)
def answers_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Redis that is slow to answer on a busy machine is not away."""
    monkeypatch.setattr(wakeups, "ANSWER_S", SOON_S)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is not woken is late enough to be told from somebody on a busy machine."""
    monkeypatch.setattr(wakeups, "WOKEN_POLL_S", 60.0)


async def subscribed(url: str) -> Wakeups:
    waking = Wakeups(RUN, url)
    await waking.wait()
    assert waking.by_message
    return waking


# --- waiting ---


@pytest.mark.usefixtures("patient")
async def test_a_watcher_without_redis_looks_often() -> None:  # D5
    waking = Wakeups(RUN, "")
    assert await timed(waking.wait) < SOON_S
    assert not waking.by_message


@pytest.mark.usefixtures("patient")
async def test_a_watcher_is_woken_by_a_message(redis_url: str) -> None:
    waking = await subscribed(redis_url)
    waiting = asyncio.create_task(timed(waking.wait))
    await asyncio.sleep(0)
    Caller(redis_url).wake(RUN)
    assert await waiting < SOON_S
    await waking.close()


async def test_a_watcher_that_nothing_wakes_looks_now_and_then(redis_url: str) -> None:
    waking = await subscribed(redis_url)
    Caller(redis_url).wake(RUN + 1)
    assert await timed(waking.wait) >= wakeups.WOKEN_POLL_S * 0.9
    await waking.close()


@pytest.mark.usefixtures("patient")
async def test_what_happens_while_a_watcher_looks_is_not_missed(redis_url: str) -> None:
    waking = await subscribed(redis_url)
    Caller(redis_url).wake(RUN)
    assert await timed(waking.wait) < SOON_S
    await waking.close()


async def test_many_messages_are_one_look(redis_url: str) -> None:
    waking = await subscribed(redis_url)
    for _ in range(50):
        Caller(redis_url).wake(RUN)
    await waking.wait()
    # The last of them may still have been on its way.
    await waking.wait()
    assert await timed(waking.wait) >= wakeups.WOKEN_POLL_S * 0.9
    await waking.close()


@pytest.mark.usefixtures("patient")
async def test_a_watcher_looks_often_while_redis_is_away_and_is_woken_when_it_is_back(
    server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups, "AWAY_S", 0.3)
    waking = await subscribed(url_of(server))
    server.stop()
    await waking.wait()
    assert not waking.by_message
    assert await timed(waking.wait) < SOON_S
    server.start()
    deadline = time.monotonic() + SOON_S
    while not waking.by_message:
        await waking.wait()
        assert time.monotonic() < deadline
    Caller(url_of(server)).wake(RUN)
    assert await timed(waking.wait) < SOON_S
    await waking.close()


async def test_a_watcher_leaves_no_connection_behind(redis_url: str) -> None:
    waking = await subscribed(redis_url)
    with redis.Redis.from_url(redis_url) as client:
        assert client.pubsub_numsub(channel_of(RUN))[0][1] == 1
        await waking.close()
        deadline = time.monotonic() + SOON_S
        while client.pubsub_numsub(channel_of(RUN))[0][1]:
            assert time.monotonic() < deadline


def test_a_thread_that_waits_for_what_comes_in_a_moment_is_woken(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups, "QUICK_WOKEN_POLL_S", 60.0)
    with redis.Redis.from_url(redis_url) as client:
        with Caller(redis_url).pauses(RUN) as pause:
            # Ends as soon as the subscription is confirmed: what happened before is looked for then.
            pause()
            assert client.pubsub_numsub(channel_of(RUN))[0][1] == 1
            Caller(redis_url).wake(RUN)
            started = time.monotonic()
            pause()
            assert time.monotonic() - started < SOON_S
        deadline = time.monotonic() + SOON_S
        while client.pubsub_numsub(channel_of(RUN))[0][1]:
            assert time.monotonic() < deadline, "the subscription outlived the wait"


def test_a_thread_looks_often_while_redis_is_away(server: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeups, "QUICK_WOKEN_POLL_S", 60.0)
    caller = Caller(url_of(server))
    started = time.monotonic()
    with caller.pauses(RUN) as pause:
        pause()
        server.stop()
        for _ in range(3):
            pause()
    with caller.pauses(RUN) as pause:
        pause()
    assert time.monotonic() - started < SOON_S


# --- waking ---


def test_a_caller_wakes_again_after_redis_was_restarted(server: Redis) -> None:
    caller = Caller(url_of(server))
    caller.wake(RUN)
    server.stop()
    server.start()
    with listening(url_of(server)) as messages:
        caller.wake(RUN)
        assert messages() == [(channel_of(RUN), str(RUN))]


def test_a_redis_that_does_not_answer_holds_up_a_run_once_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeups, "ANSWER_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        caller = Caller(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        caller.wake(RUN)
        started = time.monotonic()
        for _ in range(100):
            caller.wake(RUN)
        assert time.monotonic() - started < SOON_S, "not a hundred times as long as it waits"


@contextmanager
def listening(url: str) -> Iterator[Callable[[], list[tuple[str, str]]]]:
    """Yields what reads all that was said on the channels of runs: `(channel, content)` pairs, oldest first."""
    with redis.Redis.from_url(url, decode_responses=True) as client, client.pubsub() as messages:
        messages.psubscribe("*")
        assert messages.get_message(timeout=SOON_S)["type"] == "psubscribe"

        def heard() -> list[tuple[str, str]]:
            # What was sent before this comes before it.
            client.publish("the end", "")
            found = []
            while (message := messages.get_message(timeout=SOON_S)) and message["channel"] != "the end":
                found.append((message["channel"], message["data"]))
            return found

        yield heard


@pytest.mark.django_db(transaction=True)
def test_every_change_of_a_run_is_told_once_it_is_there(settings: Settings, redis_url: str) -> None:
    settings.LLM_WAKEUPS_URL = redis_url
    with script(
        Turn(tool_calls=(call("list_policies"),)), Turn(text="A secret answer."), tool_groups=["policies"]
    ) as s:
        run = write_run(request=s.request(prompt="A secret question."), by=None)
        with listening(redis_url) as messages:
            s.drive(run)
            heard = messages()
            assert set(heard) == {(channel_of(run.pk), str(run.pk))}, "a number, and no content"
            # One for each revision, the claim and the end included.
            assert len(heard) == run.revision

            other = write_run(request=s.request(), by=None)
            with transaction.atomic():
                cancel_run(run=other, by=None, now=timezone.now())
                assert messages() == []
            assert messages() == [(channel_of(other.pk), str(other.pk))]

            Run.objects.filter(pk=other.pk).update(status="interrupted", reason="interrupted")
            assert requeue_interrupted(other)
            assert len(messages()) == 1

            Run.objects.filter(pk=other.pk).update(status="running", lease_until=timezone.now())
            sweep(now=timezone.now())
            assert len(messages()) == 1


@pytest.mark.django_db(transaction=True)
def test_runs_do_without_a_redis_that_is_away(settings: Settings, server: Redis) -> None:
    settings.LLM_WAKEUPS_URL = url_of(server)
    server.stop()
    with script(Turn(text="Good day.")) as s:
        assert s.run().answer == "Good day."


@pytest.mark.django_db(transaction=True)
def test_nothing_is_told_where_there_is_no_redis(settings: Settings, redis_url: str) -> None:
    settings.LLM_WAKEUPS_URL = ""
    with script(Turn(text="Good day.")) as s, listening(redis_url) as messages:
        s.run()
        assert messages() == []
