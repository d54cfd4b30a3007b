"""A run's state is one value: whatever was interrupted goes on from it, and nothing that was done is done again."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from llmcore.messages import FinishReason, Message, Part, ToolCall
from llmcore.providers.scripted import Turn
from llmcore.runs.outcome import EndReason
from llmcore.runs.state import RunState, replay
from llmcore.runs.transcript import INTERRUPTED, mend
from llmcore.tools.base import Effect
from llmcore.trace import RunTrace, StepKind
from tests.llmcore.conftest import LoopBench, call

TURNS = (
    Turn(text="I look.", tool_calls=(call("read", {"n": 1}), call("pay", {"n": 2}), call("read", {"n": 3}))),
    Turn(tool_calls=(call("read", {"n": 6}), call("read", {"n": 4}), call("store", {"n": 5}), call("pay", "[]"))),
    Turn(text="All done."),
)


@pytest.fixture(autouse=True)
def runs(bench: LoopBench) -> Counter[tuple[str, int]]:
    """How often each tool ran with each number."""
    counted: Counter[tuple[str, int]] = Counter()

    def counting(name: str, effect: Effect) -> None:
        def run(n: int) -> str:
            counted[name, n] += 1
            return f"{name} {n}"

        bench.tools.tool(name=name, description=name, effect=effect)(run)

    counting("read", Effect.READ_ONLY)
    counting("store", Effect.IDEMPOTENT_WRITE)
    counting("pay", Effect.NON_IDEMPOTENT_WRITE)
    bench.script(*TURNS)
    return counted


def through_json(state: RunState) -> RunState:
    return RunState.from_json(json.loads(json.dumps(state.to_json())))


async def test_a_state_round_trips_as_json(bench: LoopBench) -> None:
    end = await bench.run()

    assert through_json(end.state) == end.state  # L15b
    assert replay(bench.state(), bench.trace.steps, bench.trace.contents) == end.state


async def test_from_every_prefix_of_its_steps_a_run_goes_on_to_its_end(
    bench: LoopBench, runs: Counter[tuple[str, int]]
) -> None:
    initial = bench.state()
    whole = await bench.run(initial)
    steps, contents = list(bench.trace.steps), bench.trace.contents
    assert whole.outcome.reason is EndReason.COMPLETED and len(steps) == 23
    for length in range(len(steps) + 1):
        prefix = steps[:length]
        runs.clear()
        state = through_json(replay(initial, prefix, contents))
        trace = RunTrace(steps=prefix, contents=contents)

        end = await bench.run(state, trace=trace)

        assert (end.outcome.reason, end.outcome.answer) == (EndReason.COMPLETED, "All done."), length  # L15b
        assert end.state.rounds_used == 3
        assert mend(end.state.messages) == (list(end.state.messages), []), length  # L13
        assert_nothing_is_done_again(prefix, contents, runs)
        # What is recorded by now is again enough to go on from, after a second interruption.
        assert replay(initial, trace.steps, trace.contents) == end.state, length


def assert_nothing_is_done_again(prefix: list[Any], contents: Any, runs: Counter[tuple[str, int]]) -> None:
    started = [step.data for step in prefix if step.kind is StepKind.TOOL_CALL and not step.data["problem"]]
    answered = {step.data["call_id"] for step in prefix if step.kind is StepKind.TOOL_RESULT}
    for data in started:
        ran_again = runs[data["name"], contents[data["arguments"]]["n"]]
        may_run_again = data["call_id"] not in answered and data["effect"] != Effect.NON_IDEMPOTENT_WRITE
        assert ran_again == int(may_run_again), (len(prefix), data["preview"])


async def test_a_write_in_flight_is_reported_as_interrupted_and_the_trace_says_so(
    bench: LoopBench, runs: Counter[tuple[str, int]]
) -> None:
    initial = bench.state()
    await bench.run(initial)
    at = next(n for n, s in enumerate(bench.trace.steps) if s.kind is StepKind.TOOL_CALL and s.data["name"] == "pay")
    prefix = bench.trace.steps[: at + 1]
    runs.clear()
    bench.requests.clear()
    trace = RunTrace(steps=prefix, contents=bench.trace.contents)

    await bench.run(replay(initial, prefix, trace.contents), trace=trace)

    assert runs["pay", 2] == 0  # D3
    results = [message["content"] for message in bench.bodies[0]["messages"] if message["role"] == "tool"]
    assert results == ["read 1", INTERRUPTED, "read 3"]  # L8: in the order of the calls
    shown = trace.steps[len(prefix)]
    assert shown.kind is StepKind.TOOL_RESULT
    assert (shown.data["error_kind"], shown.data["effect_unknown"]) == ("interrupted", True)


async def test_a_request_after_an_interruption_is_a_difference_to_the_one_before_it(bench: LoopBench) -> None:
    initial = bench.state()
    await bench.run(initial)
    cut = next(n for n, step in enumerate(bench.trace.steps) if step.kind is StepKind.REQUEST and step.round == 2)
    prefix = bench.trace.steps[: cut + 1]
    trace = RunTrace(steps=prefix, contents=bench.trace.contents)

    await bench.run(replay(initial, prefix, trace.contents), trace=trace)

    again = trace.steps[cut + 1]
    assert again.kind is StepKind.REQUEST and again.round == 2
    assert (again.data["kept"], again.data["added"]) == (5, [])  # T4
    assert again.data["body_sha256"] == prefix[cut].data["body_sha256"]


async def test_what_a_cancellation_kept_from_running_runs_when_the_run_goes_on(
    bench: LoopBench, runs: Counter[tuple[str, int]]
) -> None:
    cancel = asyncio.Event()

    @bench.tools.tool()
    async def wait() -> str:
        """Wait for a cancellation, or, when there was one, don't."""
        if not cancel.is_set():
            cancel.set()
            await asyncio.Event().wait()
        return "waited"

    bench.script(Turn(tool_calls=(call("wait"), call("pay", {"n": 1}))), Turn(text="Done."))
    initial = bench.state()
    stopped = await bench.run(initial, cancel=cancel)
    assert (stopped.outcome.reason, runs) == (EndReason.CANCELLED, {})
    trace = RunTrace(steps=bench.trace.steps, contents=bench.trace.contents)

    end = await bench.run(replay(initial, trace.steps, trace.contents), trace=trace)

    assert (end.outcome.reason, runs["pay", 1]) == (
        EndReason.COMPLETED,
        1,
    )  # D1: a worker that is stopped loses nothing
    assert bench.results_sent() == ["waited", "pay 1"]


async def test_results_of_a_round_that_was_broken_off_keep_the_order_of_the_calls(bench: LoopBench) -> None:
    cancel = asyncio.Event()
    ran: list[int] = []

    @bench.tools.tool()
    async def look_up(n: int) -> int:
        """Look up an order; the second one found stops the run."""
        ran.append(n)
        if n == 2:
            cancel.set()
        elif not cancel.is_set():
            await asyncio.Event().wait()
        return n

    bench.script(Turn(tool_calls=(call("look_up", {"n": 1}), call("look_up", {"n": 2}))), Turn(text="Done."))
    initial = bench.state()
    await bench.run(initial, cancel=cancel)
    trace = RunTrace(steps=bench.trace.steps, contents=bench.trace.contents)

    end = await bench.run(replay(initial, trace.steps, trace.contents), trace=trace)

    assert ran == [1, 2, 1]  # P4: what was done is not done again
    assert bench.results_sent() == ["1", "2"]  # L8
    assert replay(initial, trace.steps, trace.contents) == end.state


async def test_a_write_that_a_cancellation_broke_off_is_not_made_again(bench: LoopBench) -> None:
    cancel = asyncio.Event()
    paid: list[int] = []

    @bench.tools.tool(effect=Effect.NON_IDEMPOTENT_WRITE)
    async def pay_slowly() -> None:
        """Pay, but never come back."""
        paid.append(1)
        cancel.set()
        await asyncio.Event().wait()

    bench.script(Turn(tool_calls=(call("pay_slowly"),)), Turn(text="Done."))
    initial = bench.state()
    await bench.run(initial, cancel=cancel)

    end = await bench.run(replay(initial, bench.trace.steps, bench.trace.contents), trace=None)

    assert (end.outcome.reason, paid) == (EndReason.COMPLETED, [1])  # D3
    assert "Whether it had an effect is unknown." in bench.results_sent()[0]


async def test_an_answer_that_was_broken_off_is_asked_for_again_in_the_same_round(bench: LoopBench) -> None:
    cancel = asyncio.Event()
    cancel_at_first = CancelAtFirstPiece(cancel)
    bench.script(Turn(text="tick " * 1_000, chunk_delay_s=0.01))
    initial = bench.state()
    stopped = await bench.run(initial, trace=RunTrace(cancel_at_first), cancel=cancel)
    bench.script(Turn(text="Done."))

    end = await bench.run(replay(initial, cancel_at_first.steps, cancel_at_first.contents), trace=None)

    assert stopped.outcome.reason is EndReason.CANCELLED and stopped.state.rounds_used == 0
    assert (end.outcome.answer, end.state.rounds_used) == ("Done.", 1)


class CancelAtFirstPiece:
    def __init__(self, cancel: asyncio.Event) -> None:
        self.cancel = cancel
        self.steps: list[Any] = []
        self.contents: dict[str, Any] = {}

    def step(self, step: Any, contents: Any) -> None:
        self.steps.append(step)
        self.contents.update(contents)

    def delta(self, round: int, delta: Any) -> None:
        self.cancel.set()

    def exchange(self, sequence: int, exchange: Any) -> None: ...

    async def committed(self) -> None: ...


async def test_a_state_with_pending_calls_runs_them_before_the_next_request(
    bench: LoopBench, runs: Counter[tuple[str, int]]
) -> None:
    calls = tuple(ToolCall(id=f"c{n}", name="read", arguments={"n": n}) for n in range(3))
    asked = Message(role="assistant", tool_calls=calls)
    known = Message(role="tool", parts=(Part(text="known"),), tool_call_id="c1", name="read")
    bench.script(Turn(text="."), Turn(text="Thanks."))

    end = await bench.run(bench.state(Message.of("user", "Go."), asked, known))

    assert runs == {("read", 0): 1, ("read", 2): 1}  # L15b, P4
    assert bench.results_sent() == ["read 0", "known", "read 2"]
    assert [message.tool_call_id for message in end.state.messages[2:5]] == ["c0", "c1", "c2"]  # L8
    assert end.outcome.reason is EndReason.COMPLETED


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        (FinishReason.STOP, EndReason.COMPLETED),
        (FinishReason.LENGTH, EndReason.TRUNCATED),
        (FinishReason.CONTENT_FILTER, EndReason.CONTENT_FILTERED),
    ],
)
async def test_a_state_that_is_at_its_end_makes_no_further_call(
    bench: LoopBench, finish: FinishReason, reason: EndReason
) -> None:
    state = replace(bench.state(Message.of("user", "Go."), Message.of("assistant", "Gone.")), finish_reason=finish)

    end = await bench.run(state)

    assert (end.outcome.reason, end.outcome.answer) == (reason, "Gone.") and bench.requests == []


async def test_calls_of_an_answer_that_was_cut_short_do_not_run_whoever_wrote_the_state(
    bench: LoopBench, runs: Counter[tuple[str, int]]
) -> None:
    asked = Message(role="assistant", tool_calls=(ToolCall(id="c", name="read", arguments={"n": 1}),))
    state = replace(bench.state(user(), asked), finish_reason=FinishReason.LENGTH)

    end = await bench.run(state)

    assert (end.outcome.reason, runs) == (EndReason.TRUNCATED, {})  # L14
    assert bench.data(StepKind.TOOL_RESULT)[0]["error_kind"] == "cut_off"


async def test_a_run_interrupted_in_its_last_completion_makes_that_one_again(bench: LoopBench) -> None:
    initial = bench.state(max_rounds=1)
    await bench.run(initial)
    prefix = bench.trace.steps[:-1]
    assert prefix[-2].data["last"]

    end = await bench.run(replay(initial, prefix, bench.trace.contents), trace=None)

    assert end.outcome.reason is EndReason.MAX_ROUNDS and end.state.rounds_used == 2  # L4


async def test_a_run_past_its_limit_is_over(bench: LoopBench) -> None:
    initial = bench.state(max_rounds=1)
    whole = await bench.run(initial)
    bench.requests.clear()

    end = await bench.run(replay(initial, bench.trace.steps, bench.trace.contents), trace=None)

    assert end.outcome == whole.outcome and bench.requests == []


async def test_a_failed_round_can_be_tried_again_from_the_state_it_left(bench: LoopBench) -> None:
    bench.script(TURNS[0], Turn(status=401, error="Bad key."))
    failed = await bench.run()
    bench.script(TURNS[0], TURNS[2])

    end = await bench.run(failed.state, trace=None)

    assert failed.outcome.reason is EndReason.PROVIDER_FAILED
    assert end.outcome.reason is EndReason.COMPLETED  # L15b


async def test_identical_calls_are_counted_across_an_interruption(bench: LoopBench) -> None:
    same = Turn(tool_calls=(call("read", {"n": 1}),))
    bench.script(same, same, same, Turn(text="."))
    initial = bench.state()
    await bench.run(initial)
    prefix = bench.trace.steps[:8]
    trace = RunTrace(steps=prefix, contents=bench.trace.contents)

    await bench.run(replay(initial, prefix, trace.contents), trace=trace)

    repeats = [step.data["repeat"] for step in trace.steps if step.kind is StepKind.TOOL_CALL]
    assert repeats == [1, 2, 3]  # L12


def user(text: str = "u") -> Message:
    return Message.of("user", text)


def asking(*ids: str) -> Message:
    return Message(role="assistant", tool_calls=tuple(ToolCall(id=i, name="read", arguments={}) for i in ids))


def answering(call_id: str, text: str = "r") -> Message:
    return Message(role="tool", parts=(Part(text=text),), tool_call_id=call_id, name="read")


@pytest.mark.parametrize(
    ("messages", "sent", "repairs"),
    [
        ([user(), asking("a", "b"), answering("a"), answering("b"), user()], "u ab a b u", 0),
        ([user(), asking("a", "b"), answering("b"), answering("a")], "u ab a b", 1),
        ([user(), asking("a", "b"), answering("a"), user()], "u ab a b! u", 1),
        ([user(), asking("a"), user(), answering("a")], "u a a u", 1),
        ([user(), answering("x"), asking("a"), answering("a"), answering("a")], "u a a", 2),
        ([user(), asking("a"), answering("a"), asking("a"), answering("a")], "u a a a a", 0),
        ([user(), asking("a"), asking("b"), answering("a"), answering("b")], "u a a! b b", 2),
        ([], "", 0),
    ],
)
def test_a_transcript_is_mended_on_a_copy_and_said_so(messages: list[Message], sent: str, repairs: int) -> None:
    before = list(messages)

    mended, said = mend(messages)

    assert " ".join(map(shorthand, mended)) == sent  # L13
    assert len(said) == repairs
    assert messages == before
    assert mend(messages) == (mended, said)
    assert mend(mended) == (mended, [])


def shorthand(message: Message) -> str:
    match message.role:
        case "assistant":
            return "".join(call.id for call in message.tool_calls)
        case "tool":
            return f"{message.tool_call_id}{'!' if message.text == INTERRUPTED else ''}"
    return message.text


async def test_repairs_are_recorded_with_the_request_and_the_state_keeps_its_own_messages(bench: LoopBench) -> None:
    bench.script(Turn(text="."), Turn(text="Thanks."))
    broken = (user(), asking("a", "b"), answering("b"), user("next"))

    end = await bench.run(bench.state(*broken))

    assert end.state.messages[:4] == broken  # L13
    (request,) = bench.data(StepKind.REQUEST)
    assert len(request["repairs"]) == 1 and "'a'" in request["repairs"][0]
    assert bench.results_sent() == [INTERRUPTED, "r"]
