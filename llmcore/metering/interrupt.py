"""Breaks off what is being awaited, the moment an event is set."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class Interrupt:
    """An async context that ends early, without an exception, when `event` is set; `fired` tells that it did."""

    def __init__(self, event: asyncio.Event | None) -> None:
        self.fired = False
        self._event = event
        self._watcher: asyncio.Task[bool] | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0

    async def __aenter__(self) -> Self:
        if self._event is not None:
            self._task = asyncio.current_task()
            self._cancelling = self._task.cancelling() if self._task is not None else 0
            self._watcher = asyncio.ensure_future(self._event.wait())
            self._watcher.add_done_callback(self._fire)
        return self

    def _fire(self, watcher: asyncio.Task[bool]) -> None:
        if self._task is not None and not watcher.cancelled():
            self.fired = True
            self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        task, self._task = self._task, None
        if self._watcher is not None:
            self._watcher.cancel()
        if not self.fired or task is None:
            return False
        # Only our own cancellation is swallowed: a task that was also cancelled from outside stays cancelled.
        return task.uncancel() <= self._cancelling and kind is asyncio.CancelledError
