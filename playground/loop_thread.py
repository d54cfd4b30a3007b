"""Runs the tool loop on an event loop in a thread of its own; everything it records comes out as items of a queue."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from llmcore.messages import JSON, Delta, ModelResponse
from llmcore.providers.base import ModelCall
from llmcore.runs.loop import LoopEnd
from llmcore.trace import RunStep, StepKind, WireExchange

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


@dataclass(frozen=True, kw_only=True, slots=True)
class PartialText:
    """What is being streamed right now, or the end of it; `waiting`: nothing yet, the call stands in line for a permit
    (as in `PermitData`)."""

    round: int
    text: str
    thinking: str
    tool_call: str
    waiting: Mapping[str, JSON] | None = None


# What somebody gets who looks on: everything that is stored and, while a call waits for its permit, where it stands.
Watched = Item | PartialText


class PartialAnswer:
    """Collects the pieces of an answer that is being streamed; written by the loop, read by the task."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._round = 0
        self._pieces: dict[str, list[str]] = {}
        self._waiting: Mapping[str, JSON] | None = None
        self._changed = False

    def add(self, round: int, delta: Delta) -> None:
        with self._lock:
            if self._round != round:
                self._round, self._pieces = round, {}
            self._pieces.setdefault(delta.kind, []).append(delta.text)
            self._changed = True

    def wait(self, round: int, place: Mapping[str, JSON]) -> None:
        """The call stands in line at `place`."""
        with self._lock:
            if self._round != round:
                self._round, self._pieces = round, {}
            self._waiting = place
            self._changed = True

    def admit(self) -> None:
        """It stands in line no more."""
        with self._lock:
            self._waiting = None
            self._changed = True

    def clear(self) -> None:
        """The answer is there: what was shown of it is out of date."""
        with self._lock:
            self._pieces, self._waiting, self._changed = {}, None, False

    def take(self) -> PartialText | None:
        """All of it as it stands, or `None` where nothing has come since the last time."""
        with self._lock:
            if not self._changed:
                return None
            self._changed = False
            return PartialText(
                round=self._round,
                text=self._joined("text"),
                thinking=self._joined("thinking"),
                tool_call=self._joined("tool_call"),
                waiting=self._waiting,
            )

    def _joined(self, kind: str) -> str:
        text = "".join(self._pieces.get(kind, ()))[-PARTIAL_CHARS:]
        self._pieces[kind] = [text]
        return text


class LoopThread:
    """The loop's side of a driven run: a trace's listener and a client's meter at once."""

    def __init__(self, *, name: str) -> None:
        self.cancel_event = asyncio.Event()
        self.partial = PartialAnswer()
        # Set while no loop runs.
        self.ended = threading.Event()
        self.ended.set()
        self._name = name
        self._items: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._aborted = False

    def start(self, work: Callable[[], Coroutine[Any, Any, LoopEnd]]) -> None:
        """Run `work` on the event loop; the item `Ended` says how it ended."""
        self._loop = asyncio.new_event_loop()
        self.ended.clear()
        # A daemon: where a run had to be abandoned, its loop must not keep the process.
        threading.Thread(target=self._run, args=(self._loop, work), name=self._name, daemon=True).start()

    def cancel(self) -> None:
        """Ask the loop to end: it closes its stream and says how far it came."""
        self._call(self.cancel_event.set)

    def abort(self) -> None:
        """Make the loop end wherever it waits, barriers included; what it would still record is of no use."""
        self._aborted = True
        self._call(lambda: self._task.cancel() if self._task else None)

    def take(self, timeout_s: float, *, gather_until: float = 0.0) -> list[Item]:
        """What is waiting, in order; waits up to `timeout_s` for the first item, and until the time `gather_until` for
        more of them, unless the loop waits for one or has ended."""
        items: list[Item] = []
        with suppress(queue.Empty):
            items.append(self._items.get(timeout=timeout_s))
            while True:
                urgent = isinstance(items[-1], Barrier | Ended)
                items.append(self._items.get(timeout=0 if urgent else max(gather_until - time.monotonic(), 0)))
        return items

    def _run(self, loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, LoopEnd]]) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._report(work))

    async def _report(self, work: Callable[[], Coroutine[Any, Any, LoopEnd]]) -> None:
        self._task = asyncio.current_task()
        try:
            if self._aborted:
                raise asyncio.CancelledError
            ended = Ended(end=await work())
        except BaseException as error:
            ended = Ended(error=error)
        self._items.put(ended)
        self.ended.set()

    def _call(self, function: Callable[[], object]) -> None:
        # A loop that has ended meanwhile is closed: nothing to tell it then.
        with suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(function)

    def step(self, step: RunStep, contents: Mapping[str, JSON]) -> None:
        if step.kind in (StepKind.RESPONSE, StepKind.COMPACTION):
            self.partial.clear()
        elif step.kind is StepKind.PERMIT:
            self.partial.admit()
        self._items.put(Recorded(step=step, contents=contents))

    def delta(self, round: int, delta: Delta) -> None:
        self.partial.add(round, delta)

    def waiting(self, round: int, place: Mapping[str, JSON]) -> None:
        self.partial.wait(round, place)

    def exchange(self, sequence: int, exchange: WireExchange) -> None:
        self._items.put(Exchanged(sequence=sequence, exchange=exchange))

    def record(self, call: ModelCall, response: ModelResponse, cost: Decimal | None) -> None:
        self._items.put(Metered(call=call, response=response, cost=cost))

    async def committed(self) -> None:
        stored = asyncio.Event()
        self._items.put(Barrier(passed=lambda: self._call(stored.set)))
        await stored.wait()
