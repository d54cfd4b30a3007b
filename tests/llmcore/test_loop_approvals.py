"""A turn that needs a person stops the loop before any of its calls, and goes on from the stored state alone."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from llmcore.actions.policy import Policy, Rule, Ruling
from llmcore.actions.proposals import Decision, DecisionKind, Proposal
from llmcore.errors import ToolError
from llmcore.providers.scripted import Turn
from llmcore.runs.loop import LoopEnd
from llmcore.runs.outcome import EndReason
from llmcore.runs.state import RunState, replay
from llmcore.tools.base import Action, ActionKind, Effect, ToolContext
from llmcore.trace import RunTrace, StepKind
from tests.llmcore.conftest import LoopBench, call

APPROVE, DENY = DecisionKind.APPROVE, DecisionKind.DENY


class World:
    """What the tools of these tests have done, and a file that may change under them."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.file = "one"
        self.approved: list[Action | None] = []


@pytest.fixture(autouse=True)
def world(bench: LoopBench) -> World:
    world = World()

    @bench.tools.tool()
    def read(n: int = 0) -> str:
        """Read."""
        world.done[f"read {n}"] += 1
        return f"read {n}"

    @bench.tools.tool(effect=Effect.NON_IDEMPOTENT_WRITE, requires_approval=True)
    def pay(n: int, context: ToolContext) -> str:
        """Pay."""
        world.done[f"pay {n}"] += 1
        world.approved.append(context.approved)
        return f"paid {n}"

    def change(arguments: Any, context: ToolContext) -> Action:
        return Action(kind=ActionKind.FILE_CHANGE, title="Change it", path="a.txt", before_sha256=world.file)

    @bench.tools.tool(effect=Effect.IDEMPOTENT_WRITE, requires_approval=True, describe_action=change)
    def write(text: str) -> str:
        """Write."""
        world.done["write"] += 1
        return "written"

    bench.script(
        Turn(tool_calls=(call("read", {"n": 1}), call("pay", {"n": 2}), call("pay", {"n": 3}))), Turn(text="Done.")
    )
    return world


def stored(end: LoopEnd) -> RunState:
    """The state as a database would give it back."""
    return RunState.from_json(json.loads(json.dumps(end.state.to_json())))


def decided(end: LoopEnd, *kinds: DecisionKind, reason: str = "", again: bool = False) -> RunState:
    """The state with a decision about each proposed action, in order."""
    state = stored(end)
    assert end.proposal is not None
    found = {
        action.call.id: Decision(kind=kind, key=action.key, reason=reason if kind is DENY else "", again=again)
        for action, kind in zip(end.proposal.actions, kinds, strict=True)
    }
    return RunState.from_json({**state.to_json(), "decisions": {k: d.to_json() for k, d in found.items()}})


def waiting(end: LoopEnd) -> Proposal:
    assert end.outcome is None and end.proposal is not None
    return end.proposal


async def test_a_turn_stops_before_any_of_its_calls(bench: LoopBench, world: World) -> None:  # P2
    end = await bench.run(policy=Policy())

    assert [action.call.arguments for action in waiting(end).actions] == [{"n": 2}, {"n": 3}]
    assert not world.done and bench.steps(StepKind.TOOL_CALL) == []
    assert len(bench.requests) == 1, "nothing was sent that says it is pending"
    first = bench.data(StepKind.ACTION)[0]
    assert (first["event"], first["name"], first["position"], first["calls"]) == ("proposed", "pay", 2, 3)
    assert first["digest"] == waiting(end).digest
    assert bench.trace.contents[first["action"]]["why"] == "Each call of pay needs approval."


async def test_approved_denied_and_free_calls_of_one_turn_each_get_their_result(
    bench: LoopBench, world: World
) -> None:  # P3, P4
    end = await bench.run(policy=Policy())

    last = await bench.run(decided(end, APPROVE, DENY, reason="Too much."), policy=Policy())

    assert last.outcome is not None and last.outcome.reason is EndReason.COMPLETED
    assert world.done == {"read 1": 1, "pay 2": 1}
    assert bench.results_sent() == [
        "read 1",
        "paid 2",
        "Not run: a person denied this call. Their reason: Too much.",
    ]
    assert bench.data(StepKind.TOOL_RESULT)[2]["error_kind"] == "denied"
    assert last.state.rounds_used == 2


async def test_a_run_waits_until_all_of_a_turn_is_decided(bench: LoopBench, world: World) -> None:  # P4
    end = await bench.run(policy=Policy())
    whole = decided(end, APPROVE, APPROVE).to_json()
    first = waiting(end).actions[0].call.id
    partly = RunState.from_json({**whole, "decisions": {first: whole["decisions"][first]}})

    again = await bench.run(partly, policy=Policy())

    assert [action.call.arguments for action in waiting(again).actions] == [{"n": 3}]
    assert not world.done


async def test_a_decision_holds_for_what_was_shown_only(bench: LoopBench, world: World) -> None:  # P3
    bench.script(Turn(tool_calls=(call("write", {"text": "x"}),)), Turn(text="Done."))
    end = await bench.run(policy=Policy())
    world.file = "two"

    again = await bench.run(decided(end, APPROVE), policy=Policy())

    assert not world.done
    assert waiting(again).digest != waiting(end).digest
    last = await bench.run(decided(again, APPROVE), policy=Policy())
    assert last.outcome is not None and world.done == {"write": 1}


async def test_a_decision_about_one_call_is_none_about_another_with_its_id(bench: LoopBench, world: World) -> None:
    end = await bench.run(policy=Policy())
    two, three = waiting(end).actions
    swapped = {
        two.call.id: Decision(kind=APPROVE, key=three.key).to_json(),
        three.call.id: Decision(kind=APPROVE, key=two.key).to_json(),
    }

    again = await bench.run(RunState.from_json({**stored(end).to_json(), "decisions": swapped}), policy=Policy())

    assert len(waiting(again).actions) == 2 and not world.done


async def test_a_tool_is_told_what_was_approved(bench: LoopBench, world: World) -> None:
    end = await bench.run(policy=Policy())

    await bench.run(decided(end, APPROVE, APPROVE), policy=Policy())

    assert world.approved == [action.action for action in waiting(end).actions]


async def test_the_same_again_is_approved_for_the_rest_of_the_run_and_nothing_else(
    bench: LoopBench, world: World
) -> None:
    same, other = call("pay", {"n": 2}), call("pay", {"n": 9})
    bench.script(Turn(tool_calls=(same,)), Turn(tool_calls=(same,)), Turn(tool_calls=(other,)), Turn(text="Done."))
    end = await bench.run(policy=Policy())

    later = await bench.run(decided(end, APPROVE, again=True), policy=Policy())

    assert world.done == {"pay 2": 2}
    assert [action.call.arguments for action in waiting(later).actions] == [{"n": 9}]


async def test_a_rule_approves_denies_or_asks_and_the_trace_names_it(bench: LoopBench, world: World) -> None:  # P1
    rules = (
        Rule(name="small ones", ruling=Ruling.AUTO_APPROVE, tool="pay", argument="n", pattern="2"),
        Rule(name="never three", ruling=Ruling.DENY, tool="pay", argument="n", pattern="3"),
    )

    end = await bench.run(policy=Policy(rules=rules))

    assert end.outcome is not None and world.done == {"read 1": 1, "pay 2": 1}
    named = [(data.get("ruling"), data.get("rule")) for data in bench.data(StepKind.TOOL_CALL)]
    assert named == [(None, None), ("auto_approve", "small ones"), ("deny", "never three")]
    assert "never three" in bench.results_sent()[2]


async def test_a_rule_that_forbids_beats_an_approval_given_before(bench: LoopBench, world: World) -> None:
    end = await bench.run(policy=Policy())
    rules = (Rule(name="none", ruling=Ruling.DENY, tool="pay"),)

    last = await bench.run(decided(end, APPROVE, APPROVE), policy=Policy(rules=rules))

    assert last.outcome is not None and world.done == {"read 1": 1}


async def test_a_denial_stands_whatever_rules_came_since_and_whatever_the_call_would_do_now(
    bench: LoopBench, world: World
) -> None:  # P3
    bench.script(Turn(tool_calls=(call("pay", {"n": 2}), call("write", {"text": "x"}))), Turn(text="Done."))
    end = await bench.run(policy=Policy())
    world.file = "two"
    rules = (Rule(name="all of it", ruling=Ruling.AUTO_APPROVE),)

    last = await bench.run(decided(end, DENY, DENY, reason="No."), policy=Policy(rules=rules))

    assert last.outcome is not None and not world.done
    assert bench.results_sent() == ["Not run: a person denied this call. Their reason: No."] * 2
    assert [data.get("rule") for data in bench.data(StepKind.TOOL_CALL)] == [None, None], "no rule approved them"


async def test_without_a_policy_nobody_is_asked_and_nothing_runs_unapproved(bench: LoopBench, world: World) -> None:
    end = await bench.run()

    assert end.outcome is not None and world.done == {"read 1": 1}  # P5
    assert "can't ask a person" in bench.results_sent()[1]


async def test_calls_that_can_not_run_anyway_are_nobodys_decision(bench: LoopBench, world: World) -> None:
    bench.script(Turn(tool_calls=(call("pay", {"n": "x"}), call("pay", "[]"), call("gone"))), Turn(text="Done."))

    end = await bench.run(policy=Policy())

    assert end.outcome is not None and not bench.steps(StepKind.ACTION)
    kinds = [data["error_kind"] for data in bench.data(StepKind.TOOL_RESULT)]
    assert kinds == ["schema", "parse", "unknown_tool"]


async def test_a_tool_that_can_not_say_what_it_would_do_does_not_run(bench: LoopBench, world: World) -> None:
    def broken(arguments: Any, context: ToolContext) -> Action:
        raise ToolError("Outside.") if arguments["n"] == 1 else RuntimeError("secret")

    @bench.tools.tool(describe_action=broken)
    def risky(n: int) -> None:
        """Do it."""
        world.done["risky"] += 1

    bench.script(Turn(tool_calls=(call("risky", {"n": 1}), call("risky", {"n": 2}))), Turn(text="Done."))

    await bench.run(policy=Policy(), redact=lambda text: text.replace("secret", "•••"))

    assert not world.done
    assert bench.results_sent() == ["Outside.", "Not run: what this call would do could not be found out."]


async def test_at_the_limit_of_rounds_nobody_is_asked(bench: LoopBench, world: World) -> None:
    bench.script(Turn(tool_calls=(call("pay", {"n": 1}),)), Turn(tool_calls=(call("pay", {"n": 2}),)), times=None)
    state = bench.state(max_rounds=1)
    end = await bench.run(state, policy=Policy())

    last = await bench.run(decided(end, APPROVE), policy=Policy())

    assert last.outcome is not None and last.outcome.reason is EndReason.MAX_ROUNDS
    assert world.done == {"pay 1": 1}
    assert last.state.rounds_used == 2


async def test_the_steps_alone_give_the_state_back_at_every_point(bench: LoopBench, world: World) -> None:  # L15b
    initial = bench.state()
    end = await bench.run(initial, policy=Policy())
    for action, kind in zip(waiting(end).actions, (APPROVE, DENY), strict=True):
        data = {"event": "decided", "call_id": action.call.id, "name": "pay", "key": action.key, "again": False}
        reason = bench.trace.keep("No.") if kind is DENY else None
        bench.trace.record(StepKind.ACTION, round=1, data={**data, "decision": kind.value, "reason": reason})
    before = len(bench.trace.steps)
    whole = await bench.run(replay(initial, bench.trace.steps, bench.trace.contents), policy=Policy())
    steps, contents = list(bench.trace.steps), bench.trace.contents
    assert whole.outcome is not None
    for length in range(before, len(steps) + 1):
        world.done.clear()
        prefix = steps[:length]
        paid = any(step.kind is StepKind.TOOL_CALL and step.data["name"] == "pay" for step in prefix)
        trace = RunTrace(steps=prefix, contents=contents)

        last = await bench.run(replay(initial, prefix, contents), trace=trace, policy=Policy())

        assert last.outcome is not None and last.outcome.reason is EndReason.COMPLETED, length
        assert world.done["pay 2"] == (0 if paid else 1), length  # P4: executed calls never run again
        assert world.done["pay 3"] == 0
        assert replay(initial, trace.steps, trace.contents) == last.state, length
