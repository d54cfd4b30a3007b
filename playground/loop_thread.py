"""Runs the tool loop on an event loop in a thread of its own; everything it records comes out as items of a queue."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from llmcore.runs.loop import LoopEnd

from llmcore.messages import JSON, Delta, ModelResponse
from llmcore.providers.base import ModelCall
from llmcore.trace import RunStep, WireExchange

# A watcher needs the end of a long answer, not all of it four times a second.
PARTIAL_CHARS = 50_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """A step, with the contents that it is the first to refer to."""

    step: RunStep
    contents: Mapping[str, JSON]


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchanged:
    """A captured HTTP exchange of the request step `sequence`."""

    sequence: int
    exchange: WireExchange


@dataclass(frozen=True, kw_only=True, slots=True)
class Metered:
    """A provider call to be written down as used."""

    call: ModelCall
    response: ModelResponse
    cost: Decimal | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Barrier:
    """The loop waits until everything before this item is stored; then `passed` is to be called."""

    passed: Callable[[], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """The last item: how the loop ended, or the exception that it ended with."""

    end: LoopEnd | None = None
    error: BaseException | None = None


Item = Recorded | Exchanged | Metered | Barrier | Ended


@dataclass(kw_only=True, slots=True)
class PartialAnswer:
    """What is being streamed right now: its newest characters."""

    round: int = 0
    pieces: dict[str, list[str]] = field(default_factory=dict)

    def add(self, delta: Delta) -> None:
        self.pieces.setdefault(delta.kind, []).append(delta.text)

    def text(self, kind: str) -> str:
        text = "".join(self.pieces.get(kind, ()))[-PARTIAL_CHARS:]
        self.pieces[kind] = [text]
        return text


class LoopThread:
    """The loop's side of a driven run: a trace's listener and a client's meter at once.

    `work` gets this object; it runs as the only coroutine of the thread's event loop. `cancel_event` is set by
    `cancel()` from any thread.
    """

    def __init__(self, work: Callable[[LoopThread], Coroutine[Any, Any, LoopEnd]], *, name: str) -> None:
        self.cancel_event = asyncio.Event()
        self._work = work
        self._items: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._partial = PartialAnswer()
        self._partial_changed = False
        self._task: asyncio.Task[Any] | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def cancel(self) -> None:
        """Ask the loop to end: it closes its stream and says how far it came."""
        self._call(self.cancel_event.set)

    def abort(self) -> None:
        """Make the loop end wherever it waits, barriers included; what it would still record is of no use."""
        self._call(lambda: self._task.cancel() if self._task else None)

    def _call(self, function: Callable[[], object]) -> None:
        # A loop that has ended meanwhile is closed: nothing to tell it then.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    def take(self, timeout_s: float) -> list[Item]:
        """What is waiting, in order; waits up to `timeout_s` for the first item."""
        items: list[Item] = []
        with suppress(queue.Empty):
            items.append(self._items.get(timeout=timeout_s))
            while True:
                items.append(self._items.get_nowait())
        return items

    def take_partial(self) -> tuple[int, str, str, str] | None:
        """Round, text, thinking and tool call text being streamed, if there is news since the last time."""
        with self._lock:
            if not self._partial_changed:
                return None
            self._partial_changed = False
            partial = self._partial
            return partial.round, partial.text("text"), partial.text("thinking"), partial.text("tool_call")

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._report())

    async def _report(self) -> None:
        # Reported from inside: the event loop closes only when a tool that can't be killed has come to its end.
        self._task = asyncio.current_task()
        try:
            ended = Ended(end=await self._work(self))
        except BaseException as error:
            ended = Ended(error=error)
        self._items.put(ended)

    def step(self, step: RunStep, contents: Mapping[str, JSON]) -> None:
        self._items.put(Recorded(step=step, contents=contents))

    def delta(self, round: int, delta: Delta) -> None:
        with self._lock:
            if self._partial.round != round:
                self._partial = PartialAnswer(round=round)
            self._partial.add(delta)
            self._partial_changed = True

    def exchange(self, sequence: int, exchange: WireExchange) -> None:
        self._items.put(Exchanged(sequence=sequence, exchange=exchange))

    def record(self, call: ModelCall, response: ModelResponse, cost: Decimal | None) -> None:
        self._items.put(Metered(call=call, response=response, cost=cost))

    async def committed(self) -> None:
        stored = asyncio.Event()
        self._items.put(Barrier(passed=lambda: self._call(stored.set)))
        await stored.wait()
