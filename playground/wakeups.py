"""Wakes the watchers of a run over Redis, where the site has one.

A wakeup is a hint: it carries the run's number and nothing else, and whoever gets none looks at the run's row from
time to time all the same.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache, partial

import redis
import redis.asyncio
from django.db import transaction
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from llmcore.conf import settings

logger = logging.getLogger(__name__)

# How often a row is read where nothing wakes its reader, and at most how often where something does.
POLL_S = 0.1
# The net under wakeups that get lost.
WOKEN_POLL_S = 2.0
# The same for a thread that waits for what comes in a moment.
QUICK_POLL_S = 0.005
QUICK_WOKEN_POLL_S = 0.03
# How long a Redis that is away is left alone, and how long its answer is waited for.
AWAY_S = 2.0
ANSWER_S = 1.0


def channel_of(run_id: int) -> str:
    return f"llm-playground:run:{run_id}"


def wake_on_commit(run_id: int) -> None:
    """Tell the watchers of a run to look again, once the present transaction is there to be seen."""
    if url := settings.LLM_WAKEUPS_URL:
        transaction.on_commit(partial(caller(url).wake, run_id), robust=True)


@cache
def caller(url: str) -> Caller:
    return Caller(url)


class Caller:
    """Sends wakeups, and is woken by them on a thread. A Redis that is away is left alone for a while, so that it holds
    up neither runs nor pages."""

    def __init__(self, url: str) -> None:
        self._redis = redis.Redis.from_url(
            url,
            socket_connect_timeout=ANSWER_S,
            socket_timeout=ANSWER_S,
            # Once, for the connection that a restart of Redis has closed.
            retry=Retry(NoBackoff(), 1),
        )
        self._away_until = 0.0

    def wake(self, run_id: int) -> None:
        if time.monotonic() < self._away_until:
            return
        try:
            self._redis.publish(channel_of(run_id), run_id)
        except (redis.RedisError, OSError) as error:
            self._is_away(error)

    @contextmanager
    def pauses(self, run_id: int) -> Iterator[Callable[[], None]]:
        if time.monotonic() < self._away_until:
            yield pause_a_little
            return
        with self._redis.pubsub(ignore_subscribe_messages=True) as messages:  # type: ignore[no-untyped-call]

            def pause() -> None:
                try:
                    if not messages.subscribed:
                        messages.subscribe(channel_of(run_id))
                    messages.get_message(timeout=QUICK_WOKEN_POLL_S)
                except (redis.RedisError, OSError) as error:
                    self._is_away(error)
                    pause_a_little()

            yield pause

    def _is_away(self, error: Exception) -> None:
        self._away_until = time.monotonic() + AWAY_S
        logger.info("no wakeups over Redis for now, live pages look by themselves: %s", error)


def pause_a_little() -> None:
    time.sleep(QUICK_POLL_S)


@contextmanager
def pauses(run_id: int) -> Iterator[Callable[[], None]]:
    """What a thread calls between two looks at a run that something is about to happen to: it returns when something
    did, or soon. Where there is Redis, that spares the looks in between."""
    if url := settings.LLM_WAKEUPS_URL:
        with caller(url).pauses(run_id) as pause:
            yield pause
    else:
        yield pause_a_little


@asynccontextmanager
async def wakeups(run_id: int) -> AsyncIterator[Wakeups]:
    """What a watcher of the run waits for between two looks."""
    waking = Wakeups(run_id, settings.LLM_WAKEUPS_URL)
    try:
        yield waking
    finally:
        await waking.close()


class Wakeups:
    """Ends its `wait` soon after something happened: by a message where there is Redis, else by looking often."""

    def __init__(self, run_id: int, url: str) -> None:
        self._channel = channel_of(run_id)
        self._url = url
        self._redis: redis.asyncio.Redis | None = None
        self._messages: PubSub | None = None
        self._away_until = 0.0
        self._waited = 0.0

    @property
    def by_message(self) -> bool:
        """Whether something would wake us."""
        return self._messages is not None

    async def wait(self) -> None:
        """Return when it is time to look at the run; that nothing happened may be so all the same."""
        try:
            if self._messages is not None:
                await self._message(self._messages)
            elif self._url and time.monotonic() >= self._away_until:
                # Then a look at once: what happened before is not going to be told.
                await self._subscribe()
            else:
                await asyncio.sleep(POLL_S)
        except (redis.RedisError, OSError) as error:
            self._away_until = time.monotonic() + AWAY_S
            logger.info("no wakeups over Redis for now, this live page looks by itself: %s", error)
            await self.close()

    async def close(self) -> None:
        messages, client = self._messages, self._redis
        self._messages = self._redis = None
        with suppress(redis.RedisError, OSError):
            if messages is not None:
                await messages.aclose()  # type: ignore[no-untyped-call]
            if client is not None:
                await client.aclose()

    async def _subscribe(self) -> None:
        self._redis = redis.asyncio.Redis.from_url(
            self._url, socket_connect_timeout=ANSWER_S, retry=AsyncRetry(NoBackoff(), 0)
        )
        messages = self._redis.pubsub()
        self._messages = messages
        await messages.subscribe(self._channel)
        if await messages.get_message(timeout=ANSWER_S) is None:
            raise redis.TimeoutError("Redis confirmed no subscription")

    async def _message(self, messages: PubSub) -> None:
        if await messages.get_message(timeout=WOKEN_POLL_S) is not None:
            # Many writes in a row are one look.
            await asyncio.sleep(max(self._waited + POLL_S - time.monotonic(), 0))
            while await messages.get_message(timeout=0) is not None:
                pass
        self._waited = time.monotonic()
