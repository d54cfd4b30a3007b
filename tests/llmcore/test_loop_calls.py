"""Tool calls in the loop: each gets exactly one result, and only what may run runs."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from llmcore.errors import ToolError
from llmcore.messages import JSON
from llmcore.providers.scripted import Turn
from llmcore.runs.outcome import EndReason
from llmcore.tools.base import Artifact, Effect, ToolContext, ToolOutput
from llmcore.trace import RunStep, RunTrace, StepKind
from tests.llmcore.conftest import LoopBench, call

DONE = Turn(text="Done.")


@pytest.fixture
def looked_up(bench: LoopBench) -> list[str | None]:
    """The numbers that the tool `look_up` was run with."""
    numbers: list[str | None] = []

    @bench.tools.tool()
    def look_up(number: str | None = None) -> str:
        """Look up an order."""
        numbers.append(number)
        return f"order {number}"

    return numbers


@pytest.mark.parametrize("raw", ["", "   ", "null", "{}", '"{}"'])
async def test_empty_arguments_in_any_spelling_mean_none(
    bench: LoopBench, looked_up: list[str | None], raw: str
) -> None:
    bench.script(Turn(tool_calls=(call("look_up", raw),)), DONE)

    await bench.run()

    assert looked_up == [None]  # L6


async def test_a_string_that_holds_an_object_is_unwrapped_once(bench: LoopBench, looked_up: list[str | None]) -> None:
    once = json.dumps({"number": "7"})
    bench.script(
        Turn(tool_calls=(call("look_up", json.dumps(once)), call("look_up", json.dumps(json.dumps(once))))), DONE
    )

    await bench.run()

    assert looked_up == ["7"]  # L6
    assert "can't be read" in bench.results_sent()[1]


@pytest.mark.parametrize(
    ("raw", "problem"),
    [('{"number": "7"', "not valid JSON"), ("[1]", "an array"), ("7", "a number"), ('"seven"', "a string")],
)
async def test_what_is_no_object_is_never_run_as_an_empty_one(
    bench: LoopBench, looked_up: list[str | None], raw: str, problem: str
) -> None:
    bench.script(Turn(tool_calls=(call("look_up", raw),)), DONE)

    end = await bench.run()

    assert looked_up == []  # L6, known fault
    assert end.outcome.reason is EndReason.COMPLETED
    assert problem in bench.results_sent()[0]
    (step,) = bench.data(StepKind.TOOL_CALL)
    assert bench.trace.contents[step["arguments"]] == raw
    assert step["problem"] == "undecodable"
    assert bench.data(StepKind.TOOL_RESULT)[0]["error_kind"] == "parse"


async def test_violations_of_the_schema_go_back_with_json_pointers(
    bench: LoopBench, looked_up: list[str | None]
) -> None:
    bench.script(Turn(tool_calls=(call("look_up", {"number": 7, "city": "Bonn"}),)), DONE)

    await bench.run()

    assert looked_up == []  # L6
    (result,) = bench.results_sent()
    assert "/number: " in result and "/city: is not a parameter" in result
    assert bench.data(StepKind.TOOL_RESULT)[0]["error_kind"] == "schema"


async def test_an_unknown_tool_is_an_error_result(bench: LoopBench, looked_up: list[str | None]) -> None:
    bench.script(Turn(tool_calls=(call("teleport", {"to": "Bonn"}),)), DONE)

    end = await bench.run()

    assert end.outcome.reason is EndReason.COMPLETED  # L7
    assert bench.results_sent() == ["Not run: there is no tool called 'teleport'. Tools you can call: look_up."]
    assert bench.data(StepKind.TOOL_RESULT)[0]["error_kind"] == "unknown_tool"


async def test_a_tool_that_was_not_offered_does_not_run(bench: LoopBench, looked_up: list[str | None]) -> None:
    bench.script(Turn(tool_calls=(call("look_up"),)), DONE)

    @bench.tools.tool()
    def other() -> str:
        """Do something else."""
        return "other"

    end = await bench.run(bench.state(offered=("other",)))

    assert looked_up == [] and end.outcome.reason is EndReason.COMPLETED  # L2, L7
    assert "is not offered in this run" in bench.results_sent()[0]
    assert bench.data(StepKind.TOOL_RESULT)[0]["error_kind"] == "not_offered"


async def test_a_tool_that_was_taken_away_since_the_gate_was_computed_does_not_run(
    bench: LoopBench, looked_up: list[str | None]
) -> None:
    bench.script(Turn(tool_calls=(call("look_up"),)), DONE)

    await bench.run(bench.state(offered=("look_up",)), tools={})

    assert looked_up == []  # L2: when resuming, what is no longer permitted is not in `tools`
    assert "tools" not in bench.bodies[0]


async def test_a_tool_that_needs_approval_does_not_run(bench: LoopBench) -> None:
    ran = []

    @bench.tools.tool(requires_approval=True)
    def terminal() -> None:
        """Run a command."""
        ran.append(1)

    bench.script(Turn(tool_calls=(call("terminal"),)), DONE)

    await bench.run()

    assert ran == []  # P5
    assert bench.data(StepKind.TOOL_RESULT)[0]["error_kind"] == "needs_approval"


async def test_a_rule_of_approval_decides_by_the_arguments(bench: LoopBench) -> None:
    written = []

    def outside(arguments: Mapping[str, JSON], context: ToolContext) -> str | None:
        if arguments["path"] == "..":
            raise ToolError("“..” is no path.")
        return None if arguments["path"] == "notes" else "Only notes are written freely."

    @bench.tools.tool(requires_approval=outside)
    def write(path: str) -> None:
        """Write."""
        written.append(path)

    asked = [call("write", {"path": path}) for path in ("notes", "settings", "..")]
    bench.script(Turn(tool_calls=tuple(asked)), DONE)

    await bench.run()

    assert written == ["notes"]  # K4
    results = bench.data(StepKind.TOOL_RESULT)
    assert [result["error_kind"] for result in results] == [None, "needs_approval", "tool_error"]
    assert "Only notes are written freely. This run can't ask" in bench.results_sent()[1]


async def test_the_model_can_correct_what_a_tool_complains_about(bench: LoopBench) -> None:
    @bench.tools.tool()
    def look_up(number: str) -> str:
        """Look up an order."""
        if len(number) != 5:
            raise ToolError("Order numbers have five digits.")
        return "found"

    bench.script(
        Turn(tool_calls=(call("look_up", {"number": "1"}),)),
        Turn(tool_calls=(call("look_up", {"number": "00001"}),)),
        DONE,
    )

    await bench.run()

    assert bench.results_sent() == ["Order numbers have five digits.", "found"]  # L7
    assert [data["is_error"] for data in bench.data(StepKind.TOOL_RESULT)] == [True, False]


async def test_an_exception_is_generic_to_the_model_and_redacted_in_the_trace(bench: LoopBench, caplog: Any) -> None:
    @bench.tools.tool()
    def look_up() -> str:
        """Look up an order."""
        raise RuntimeError("password hunter2")

    bench.script(Turn(tool_calls=(call("look_up"),)), DONE)

    with caplog.at_level(logging.ERROR):
        end = await bench.run(redact=lambda text: text.replace("hunter2", "•••"))

    assert end.outcome.reason is EndReason.COMPLETED  # L7: the loop goes on
    assert "RuntimeError" not in bench.results_sent()[0]
    traceback = bench.trace.contents[bench.data(StepKind.TOOL_RESULT)[0]["traceback"]]
    assert "password •••" in traceback
    assert "hunter2" not in json.dumps(bench.trace.to_json()) + caplog.text


async def test_a_tool_past_its_deadline_leaves_its_effect_unknown_and_the_loop_goes_on(bench: LoopBench) -> None:
    go_on = threading.Event()

    @bench.tools.tool(timeout_s=0.05)
    def look_up() -> None:
        """Look up an order."""
        go_on.wait(30)

    bench.script(Turn(tool_calls=(call("look_up"),)), DONE)

    end = await bench.run()
    go_on.set()

    assert end.outcome.reason is EndReason.COMPLETED  # L7
    (result,) = bench.data(StepKind.TOOL_RESULT)
    assert (result["error_kind"], result["effect_unknown"]) == ("timeout", True)


async def test_doubled_and_missing_ids_do_not_merge_calls(bench: LoopBench, looked_up: list[str | None]) -> None:
    same = [call("look_up", {"number": str(n)}, id="call_1") for n in range(2)]
    bench.script(Turn(tool_calls=(*same, call("look_up", {"number": "2"}, id=None))), Turn(tool_calls=(same[0],)), DONE)

    end = await bench.run()

    assert sorted(map(str, looked_up)) == ["0", "0", "1", "2"]  # L8, known fault
    ids = [made.id for message in end.state.messages for made in message.tool_calls]
    assert len(set(ids)) == len(ids) == 4
    sent = bench.bodies[-1]["messages"]
    assert [m["tool_call_id"] for m in sent if m["role"] == "tool"] == ids
    assert [c["id"] for m in sent if m["role"] == "assistant" for c in m["tool_calls"]] == ids
    assert bench.results_sent() == ["order 0", "order 1", "order 2", "order 0"]


async def test_read_only_calls_run_at_the_same_time_and_answer_in_order(bench: LoopBench) -> None:
    arrived: list[int] = []
    all_here = asyncio.Event()

    @bench.tools.tool()
    async def meet(number: int) -> int:
        """Wait for the others, and let the last one through first."""
        arrived.append(number)
        if len(arrived) == 3:
            all_here.set()
        await all_here.wait()
        for _ in range(3 - number):
            await asyncio.sleep(0)
        return number

    bench.script(Turn(tool_calls=tuple(call("meet", {"number": n}) for n in range(3))), DONE)

    await bench.run()

    assert bench.results_sent() == ["0", "1", "2"]  # L9: had one waited for the other, none would have ended
    kinds = [step.kind.value for step in bench.trace.steps[3:-3]]
    assert kinds == ["tool_call"] * 3 + ["tool_result"] * 3


async def test_no_more_run_at_the_same_time_than_allowed(bench: LoopBench) -> None:
    running = most = 0

    @bench.tools.tool()
    async def look_up(number: int) -> int:
        """Look up an order."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        return number

    bench.script(Turn(tool_calls=tuple(call("look_up", {"number": n}) for n in range(7))), DONE)

    await bench.run(bench.state(max_parallel_tools=2))

    assert most == 2  # L9
    assert bench.results_sent() == [str(n) for n in range(7)]


async def test_writes_run_alone_and_between_their_neighbors(bench: LoopBench) -> None:
    order: list[str] = []

    async def note(name: str) -> str:
        order.append(f"+{name}")
        for _ in range(3):
            await asyncio.sleep(0)
        order.append(f"-{name}")
        return name

    bench.tools.tool(name="read", description="Read.")(note)
    bench.tools.tool(name="write", description="Write.", effect=Effect.IDEMPOTENT_WRITE)(note)
    calls = [call("read", {"name": "a"}), call("read", {"name": "b"}), call("write", {"name": "c"}),
             call("write", {"name": "d"}), call("read", {"name": "e"})]  # fmt: skip
    bench.script(Turn(tool_calls=tuple(calls)), DONE)

    await bench.run()

    assert order == ["+a", "+b", "-a", "-b", "+c", "-c", "+d", "-d", "+e", "-e"]  # L9


async def test_where_calls_overlap_wall_time_is_counted_once(bench: LoopBench) -> None:
    gate = asyncio.Event()

    @bench.tools.tool()
    async def look_up(number: int) -> int:
        """Look up an order."""
        if number == 2:
            gate.set()
        await gate.wait()
        return number

    bench.script(Turn(tool_calls=tuple(call("look_up", {"number": n}) for n in range(3))), DONE)

    await bench.run()

    results = bench.steps(StepKind.TOOL_RESULT)
    begun = min(step.started_ms for step in results)
    ended = max(step.started_ms + step.duration_ms for step in results)
    assert sum(step.data["wall_ms"] for step in results) == pytest.approx(ended - begun, abs=0.01)  # T2


async def test_a_long_result_is_cut_for_the_model_and_whole_in_the_trace(bench: LoopBench) -> None:
    @bench.tools.tool()
    def look_up() -> str:
        """Look up an order."""
        return "ä" * 5_000

    bench.script(Turn(tool_calls=(call("look_up"),)), DONE)

    await bench.run(bench.state(max_tool_result_bytes=1_000, max_traced_result_bytes=50_000))

    (text,) = bench.results_sent()
    assert len(text.encode()) <= 1_000 and "To get the rest, call the tool again" in text  # L10
    (result,) = bench.data(StepKind.TOOL_RESULT)
    assert bench.trace.contents[result["full"]] == "ä" * 5_000
    assert result["bytes"] == 10_000


async def test_the_trace_has_a_cap_of_its_own(bench: LoopBench) -> None:
    @bench.tools.tool()
    def look_up() -> str:
        """Look up an order."""
        return "x" * 5_000

    bench.script(Turn(tool_calls=(call("look_up"),)), DONE)

    await bench.run(bench.state(max_tool_result_bytes=500, max_traced_result_bytes=2_000))

    (result,) = bench.data(StepKind.TOOL_RESULT)
    assert len(bench.trace.contents[result["full"]]) <= 2_000 and result["bytes"] == 5_000  # L10


async def test_nul_and_half_characters_reach_neither_model_nor_trace(bench: LoopBench) -> None:
    @bench.tools.tool()
    def look_up() -> str:
        """Look up an order."""
        return "a\0b\ud800c"

    bench.script(Turn(tool_calls=(call("look_up"),)), DONE)

    await bench.run()

    assert bench.results_sent() == ["ab\ufffdc"]  # L10
    json.dumps(bench.trace.to_json(), ensure_ascii=False).encode()


async def test_artifacts_go_to_the_trace_only(bench: LoopBench) -> None:
    @bench.tools.tool()
    def report() -> ToolOutput:
        """Report."""
        return ToolOutput(content="made a note", artifacts=(Artifact(type="note", payload={"title": "Late"}),))

    bench.script(Turn(tool_calls=(call("report"),)), DONE)

    await bench.run()

    assert bench.results_sent() == ["made a note"] and b"Late" not in bench.requests[-1].body  # L10
    (result,) = bench.data(StepKind.TOOL_RESULT)
    assert bench.trace.contents[result["artifacts"]] == [{"type": "note", "payload": {"title": "Late"}}]


async def test_the_model_is_told_of_its_third_identical_call(bench: LoopBench, looked_up: list[str | None]) -> None:
    same = [call("look_up", '{"number":"1"}'), call("look_up", '{ "number" : "1" }'), call("look_up", {"number": "2"})]
    bench.script(Turn(tool_calls=tuple(same)), Turn(tool_calls=(same[0],)), DONE)

    await bench.run()

    texts = bench.results_sent()  # L12
    assert [text.startswith("order ") for text in texts] == [True] * 4
    assert ["call number 3 of look_up" in text for text in texts] == [False, False, False, True]
    assert [data["repeat"] for data in bench.data(StepKind.TOOL_CALL)] == [1, 2, 1, 3]


async def test_a_broken_call_that_is_repeated_counts_too(bench: LoopBench, looked_up: list[str | None]) -> None:
    bench.script(Turn(tool_calls=tuple(call("look_up", "[") for _ in range(3))), DONE)

    await bench.run()

    assert [data["repeat"] for data in bench.data(StepKind.TOOL_CALL)] == [1, 2, 3]  # L12


class Slow:
    """A listener that is told to wait, and remembers what happened in the meantime."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def step(self, step: RunStep, contents: Any) -> None:
        if step.kind is StepKind.TOOL_CALL:
            self.log.append(f"recorded {step.data['name']}")

    def delta(self, round: int, delta: Any) -> None: ...

    def exchange(self, sequence: int, exchange: Any) -> None: ...

    async def committed(self) -> None:
        self.log.append("committing")
        await asyncio.sleep(0)
        self.log.append("committed")


async def test_a_write_that_must_not_happen_twice_starts_only_when_its_step_is_stored(bench: LoopBench) -> None:
    log: list[str] = []

    @bench.tools.tool(effect=Effect.NON_IDEMPOTENT_WRITE)
    def pay() -> None:
        """Pay."""
        log.append("paid")

    @bench.tools.tool()
    def look_up() -> None:
        """Look up."""
        log.append("looked up")

    bench.trace = RunTrace(Slow(log))
    bench.script(Turn(tool_calls=(call("look_up"), call("pay"))), DONE)

    await bench.run()

    assert log == ["recorded look_up", "looked up", "recorded pay", "committing", "committed", "paid"]  # T2, D3


@pytest.fixture
def hanging_tool(bench: LoopBench) -> Iterator[tuple[threading.Event, threading.Event]]:
    begun, go_on = threading.Event(), threading.Event()

    @bench.tools.tool(effect=Effect.NON_IDEMPOTENT_WRITE)
    def hang() -> None:
        """Hang."""
        begun.set()
        go_on.wait(30)

    yield begun, go_on
    go_on.set()


async def test_a_cancel_while_a_tool_runs_ends_the_run_with_a_result_for_each_call(
    bench: LoopBench, hanging_tool: tuple[threading.Event, threading.Event], looked_up: list[str | None]
) -> None:
    cancel = asyncio.Event()
    bench.script(Turn(tool_calls=(call("hang"), call("look_up"))), DONE)
    running = asyncio.create_task(bench.run(cancel=cancel))
    await asyncio.to_thread(hanging_tool[0].wait)

    cancel.set()

    end = await asyncio.wait_for(running, 20)
    assert end.outcome.reason is EndReason.CANCELLED and looked_up == []  # D2
    results = bench.data(StepKind.TOOL_RESULT)
    assert [(data["error_kind"], data["effect_unknown"]) for data in results] == [
        ("cancelled", True),
        ("cancelled", False),
    ]
    assert [message.role for message in end.state.messages] == ["user", "assistant", "tool", "tool"]  # L13


async def test_a_cancel_while_the_answer_streams_closes_the_stream_and_keeps_what_came(bench: LoopBench) -> None:
    cancel = asyncio.Event()
    bench.script(Turn(text="tick " * 10_000, chunk_chars=5, chunk_delay_s=0.01))

    class CancelAtFirst(Slow):
        def delta(self, round: int, delta: Any) -> None:
            cancel.set()

    bench.trace = RunTrace(CancelAtFirst([]))

    end = await asyncio.wait_for(bench.run(cancel=cancel), 60)

    assert end.outcome.reason is EndReason.CANCELLED  # D2, L15
    assert end.outcome.answer.startswith("tick")
    assert bench.data(StepKind.RESPONSE)[0]["cancelled"]
    assert len(bench.requests) == 1


async def test_a_cancel_before_the_run_begins_makes_no_call(bench: LoopBench) -> None:
    cancel = asyncio.Event()
    cancel.set()

    end = await bench.run(cancel=cancel)

    assert end.outcome.reason is EndReason.CANCELLED and bench.requests == []


async def test_a_cancel_after_the_answer_is_whole_changes_nothing(bench: LoopBench) -> None:
    cancel = asyncio.Event()

    class CancelAtResponse(Slow):
        def step(self, step: RunStep, contents: Any) -> None:
            if step.kind is StepKind.RESPONSE:
                cancel.set()

    bench.trace = RunTrace(CancelAtResponse([]))
    bench.script(DONE)

    assert (await bench.run(cancel=cancel)).outcome.reason is EndReason.COMPLETED
