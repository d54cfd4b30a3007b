"""Calls of models for synchronous code of a site: on an event loop beside it, while it writes down what they use."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

from llmcore.budgets.run import RunBudgets
from llmcore.messages import ModelResponse
from llmcore.metering.client import Meter, ModelClient, open_http
from llmcore.providers.base import ModelCall
from llmcore.site_permits import site_permits
from llmcore.site_usage import DatabaseMeter

Record = tuple[ModelCall, ModelResponse, Decimal | None]
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True, slots=True)
class CallSite:
    """What the work calls models with: `client` makes one that reports to the meter it is given, in the end to `meter`.
    `cancel` is set when nobody waits any more."""

    client: Callable[[Meter], ModelClient]
    meter: Meter
    cancel: asyncio.Event


class Stop:
    """Called when nobody waits for calls any more, on any thread and at any time: what is under way is cancelled, and
    its stream is closed at once."""

    def __init__(self) -> None:
        self._called = threading.Event()
        self._cancel: Callable[[], object] = self._called.set

    def __call__(self) -> None:
        self._called.set()
        # The loop is closed where the work has just ended.
        with suppress(RuntimeError):
            self._cancel()

    def heard(self) -> asyncio.Event:
        """An event of the running loop that is set by the call, also by one that was before."""
        cancel, loop = asyncio.Event(), asyncio.get_running_loop()
        self._cancel = partial(loop.call_soon_threadsafe, cancel.set)
        if self._called.is_set():
            cancel.set()
        return cancel


def make_calls(
    work: Callable[[CallSite], Coroutine[Any, Any, Result]],
    *,
    meter: DatabaseMeter,
    budgets: RunBudgets,
    stop: Stop | None = None,
) -> Result:
    """Do the work and wait for it. Each call is within `budgets` and is told to `meter`, on this thread. With `stop`
    another thread can end the work."""
    stop = stop or Stop()
    calls = _Calls(stop)
    with ThreadPoolExecutor(1, thread_name_prefix="calls") as pool:
        # The database belongs to this thread: the other one only reports.
        done = pool.submit(lambda: asyncio.run(calls.make(work, budgets)))
        done.add_done_callback(lambda _: calls.records.put(None))
        try:
            for record in iter(calls.records.get, None):
                meter.record(*record)
        except BaseException:
            # Whoever ends this thread's waiting (a signal, a time limit) wants no answer any more.
            stop()
            raise
        return done.result()


class _Calls:
    """The work on a thread of its own, which hands its usage over."""

    def __init__(self, stop: Stop) -> None:
        self.records: queue.SimpleQueue[Record | None] = queue.SimpleQueue()
        self._stop = stop

    def record(self, call: ModelCall, response: ModelResponse, cost: Decimal | None) -> None:
        self.records.put((call, response, cost))

    async def make(self, work: Callable[[CallSite], Coroutine[Any, Any, Result]], budgets: RunBudgets) -> Result:
        cancel = self._stop.heard()
        async with open_http() as http, site_permits() as permits, budgets:
            return await work(
                CallSite(
                    client=lambda meter: ModelClient(http=http, meter=meter, permits=permits, budgets=budgets or None),
                    meter=self,
                    cancel=cancel,
                )
            )
