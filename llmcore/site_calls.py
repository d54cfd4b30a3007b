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
from llmcore.store import DatabaseMeter

Record = tuple[ModelCall, ModelResponse, Decimal | None]
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True, slots=True)
class CallSite:
    """What the work calls models with: `client` makes one that reports to the meter it is given, in the end to `meter`.
    `cancel` is set when nobody waits any more."""

    client: Callable[[Meter], ModelClient]
    meter: Meter
    cancel: asyncio.Event


def make_calls(
    work: Callable[[CallSite], Coroutine[Any, Any, Result]], *, meter: DatabaseMeter, budgets: RunBudgets
) -> Result:
    """Do the work and wait for it. Each call is within `budgets` and is told to `meter`, on this thread."""
    calls = _Calls()
    with ThreadPoolExecutor(1, thread_name_prefix="calls") as pool:
        # The database belongs to this thread: the other one only reports.
        done = pool.submit(lambda: asyncio.run(calls.make(work, budgets)))
        done.add_done_callback(lambda _: calls.records.put(None))
        try:
            for record in iter(calls.records.get, None):
                meter.record(*record)
        except BaseException:
            # Whoever ends this thread's waiting (a signal, a time limit) wants no answer any more.
            calls.stop()
            raise
        return done.result()


class _Calls:
    """The work on a thread of its own, which hands its usage over."""

    def __init__(self) -> None:
        self.records: queue.SimpleQueue[Record | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._cancel: Callable[[], object] = self._stopped.set

    def record(self, call: ModelCall, response: ModelResponse, cost: Decimal | None) -> None:
        self.records.put((call, response, cost))

    def stop(self) -> None:
        """Cancel what is under way; its stream is closed at once."""
        self._stopped.set()
        # The loop is closed where the work has just ended.
        with suppress(RuntimeError):
            self._cancel()

    async def make(self, work: Callable[[CallSite], Coroutine[Any, Any, Result]], budgets: RunBudgets) -> Result:
        cancel, loop = asyncio.Event(), asyncio.get_running_loop()
        self._cancel = partial(loop.call_soon_threadsafe, cancel.set)
        if self._stopped.is_set():
            cancel.set()
        async with open_http() as http, site_permits() as permits, budgets:
            return await work(
                CallSite(
                    client=lambda meter: ModelClient(http=http, meter=meter, permits=permits, budgets=budgets or None),
                    meter=self,
                    cancel=cancel,
                )
            )
