"""What a loop in a thread of its own records, as the task beside it takes it."""

from __future__ import annotations

import time

from llmcore.runs.loop import LoopEnd
from llmcore.runs.outcome import EndReason, Outcome
from llmcore.runs.state import RunState
from llmcore.trace import RunStep, StepKind
from playground.loop_thread import Barrier, Ended, LoopThread, Recorded

WAIT_S = 60.0
DONE = LoopEnd(outcome=Outcome(reason=EndReason.COMPLETED), state=RunState(messages=()))


def step(sequence: int) -> RunStep:
    return RunStep(sequence=sequence, round=1, kind=StepKind.REQUEST, started_ms=0.0)


def test_steps_that_come_in_time_are_taken_together_up_to_the_end() -> None:
    thread = LoopThread(name="test")

    async def work() -> LoopEnd:
        thread.step(step(1), {})
        thread.step(step(2), {})
        return DONE

    thread.start(work)
    started = time.monotonic()
    items = thread.take(WAIT_S, gather_until=started + WAIT_S)
    assert items == [Recorded(step=step(1), contents={}), Recorded(step=step(2), contents={}), Ended(end=DONE)]
    assert time.monotonic() - started < WAIT_S


def test_a_loop_that_waits_until_all_is_stored_is_not_kept_waiting_for_more() -> None:  # T2
    thread = LoopThread(name="test")

    async def work() -> LoopEnd:
        thread.step(step(1), {})
        await thread.committed()
        return DONE

    thread.start(work)
    first, barrier = thread.take(WAIT_S, gather_until=time.monotonic() + WAIT_S)
    assert isinstance(first, Recorded) and isinstance(barrier, Barrier)
    assert not thread.ended.is_set()
    barrier.passed()
    assert thread.take(WAIT_S) == [Ended(end=DONE)]


def test_nothing_is_taken_where_nothing_comes() -> None:
    assert LoopThread(name="test").take(0, gather_until=time.monotonic() + WAIT_S) == []
