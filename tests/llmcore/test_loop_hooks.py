"""Hooks judge single calls: they deny, withhold or halt, and never allow more."""

from __future__ import annotations

from typing import Any

import pytest

from llmcore.messages import ToolCall
from llmcore.providers.scripted import Turn
from llmcore.runs.hooks import Hooks, Verdict, deny, halt
from llmcore.runs.outcome import EndReason
from llmcore.tools.base import Effect, Tool, ToolContext
from llmcore.trace import StepKind
from tests.llmcore.conftest import LoopBench, call

DONE = Turn(text="Done.")


@pytest.fixture(autouse=True)
def ran(bench: LoopBench) -> list[str]:
    names: list[str] = []

    def note(name: str) -> str:
        names.append(name)
        return f"secret of {name}"

    bench.tools.tool(name="read", description="Read.")(note)
    bench.tools.tool(name="write", description="Write.", effect=Effect.NON_IDEMPOTENT_WRITE)(note)
    return names


def about(name: str, verdict: Verdict) -> Any:
    """A hook for the calls with this argument."""
    return lambda call, *_: verdict if call.arguments["name"] == name else None


async def test_a_denied_call_does_not_run_and_the_model_gets_the_reason(bench: LoopBench, ran: list[str]) -> None:
    bench.script(Turn(tool_calls=(call("write", {"name": "a"}), call("write", {"name": "b"}))), DONE)

    end = await bench.run(hooks=Hooks(pre_tool_use=(about("a", deny("Not on Sundays.")),)))

    assert ran == ["b"] and end.outcome.reason is EndReason.COMPLETED  # L14, L16: a denial is no end
    assert bench.results_sent() == ["Not run: this call was denied. Not on Sundays.", "secret of b"]


async def test_a_halt_ends_the_run_and_no_further_call_runs(bench: LoopBench, ran: list[str]) -> None:
    bench.script(Turn(tool_calls=tuple(call("write", {"name": name}) for name in "abc")), DONE)

    end = await bench.run(hooks=Hooks(pre_tool_use=(about("b", halt("Too much.")),)))

    assert ran == ["a"]  # L16
    assert (end.outcome.reason, end.outcome.detail) == (EndReason.HALTED, "Too much.")
    assert [data["error_kind"] for data in bench.data(StepKind.TOOL_RESULT)] == [None, "halted", "halted"]
    assert [data["kind"] for data in bench.data(StepKind.ERROR)] == ["halted"]
    assert len(bench.requests) == 1


async def test_hooks_are_asked_in_order_and_the_first_halt_stops(bench: LoopBench) -> None:
    asked: list[str] = []

    def hook(name: str, verdict: Verdict | None) -> Any:
        def judge(call: ToolCall, tool: Tool, context: ToolContext) -> Verdict | None:
            asked.append(name)
            return verdict

        return judge

    bench.script(Turn(tool_calls=(call("read", {"name": "a"}),)), DONE)
    hooks = (hook("1", None), hook("2", deny("no")), hook("3", Verdict()), hook("4", halt("stop")), hook("5", None))

    end = await bench.run(hooks=Hooks(pre_tool_use=hooks))

    assert asked == ["1", "2", "3", "4"]  # L16
    assert end.outcome.detail == "stop"


async def test_a_later_hook_can_not_allow_what_an_earlier_one_denied(bench: LoopBench, ran: list[str]) -> None:
    bench.script(Turn(tool_calls=(call("read", {"name": "a"}),)), DONE)

    await bench.run(
        hooks=Hooks(pre_tool_use=(about("a", deny("First.")), about("a", Verdict()), about("a", deny("Last."))))
    )

    assert ran == [] and bench.results_sent() == ["Not run: this call was denied. First."]  # L16


async def test_a_hook_can_not_let_through_what_was_not_offered(bench: LoopBench, ran: list[str]) -> None:
    bench.script(Turn(tool_calls=(call("write", {"name": "a"}),)), DONE)

    await bench.run(bench.state(offered=("read",)), hooks=Hooks(pre_tool_use=(about("a", Verdict()),)))

    assert ran == []  # L16


async def test_a_result_can_be_withheld(bench: LoopBench, ran: list[str]) -> None:
    async def judge(call: ToolCall, tool: Tool, context: ToolContext, result: Any) -> Verdict | None:
        return deny("It holds a secret.") if "secret" in result.text else None

    bench.script(Turn(tool_calls=(call("read", {"name": "a"}),)), DONE)

    await bench.run(hooks=Hooks(post_tool_use=(judge,)))

    assert ran == ["a"]  # L16
    assert bench.results_sent() == ["The tool ran, but its result is withheld. It holds a secret."]
    (result,) = bench.data(StepKind.TOOL_RESULT)
    assert (result["error_kind"], bench.trace.contents[result["full"]]) == ("denied", "secret of a")


async def test_a_halt_after_a_call_keeps_its_result(bench: LoopBench, ran: list[str]) -> None:
    bench.script(Turn(tool_calls=(call("write", {"name": "a"}), call("write", {"name": "b"}))), DONE)

    end = await bench.run(hooks=Hooks(post_tool_use=(about("a", halt("Enough.")),)))

    assert ran == ["a"] and end.outcome.reason is EndReason.HALTED
    assert [message.text for message in end.state.messages[2:]] == ["secret of a", "Not run: the run was halted."]


async def test_a_hook_that_fails_lets_nothing_run(bench: LoopBench, ran: list[str]) -> None:
    def broken(*_: Any) -> None:
        raise ValueError("x")

    bench.script(Turn(tool_calls=(call("write", {"name": "a"}),)), DONE)

    end = await bench.run(hooks=Hooks(pre_tool_use=(broken,)))

    assert ran == [] and end.outcome.reason is EndReason.INTERNAL_ERROR


async def test_what_a_tool_did_is_on_record_though_the_hook_after_it_fails(bench: LoopBench, ran: list[str]) -> None:
    def broken(*_: Any) -> None:
        raise ValueError("x")

    bench.script(Turn(tool_calls=(call("write", {"name": "a"}), call("write", {"name": "b"}))), DONE)

    end = await bench.run(hooks=Hooks(post_tool_use=(broken,)))

    assert ran == ["a"] and end.outcome.reason is EndReason.INTERNAL_ERROR
    wrote, skipped = bench.data(StepKind.TOOL_RESULT)
    assert bench.trace.contents[wrote["full"]] == "secret of a"  # L15
    assert (wrote["error_kind"], skipped["error_kind"]) == ("denied", "halted")
    assert [message.role for message in end.state.messages[-2:]] == ["tool", "tool"] and len(bench.bodies) == 1  # L13
