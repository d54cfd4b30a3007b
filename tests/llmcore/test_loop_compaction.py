"""The loop keeps the transcript within the window: it is summarized, or shortened without, or the run ends in time."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from llmcore.actions.policy import Policy
from llmcore.actions.proposals import Decision, DecisionKind
from llmcore.configuration import LanguageModel, Parameters, Summarizer
from llmcore.context.compaction import LEFT_OUT, SUMMARY, is_summary
from llmcore.findings import RunView, find
from llmcore.messages import Message
from llmcore.providers.base import CallPurpose, ModelCall
from llmcore.providers.registry import adapters
from llmcore.providers.scripted import Scenario, Turn
from llmcore.runs.fork import end_of_fork
from llmcore.runs.outcome import EndReason
from llmcore.runs.state import RunState, replay
from llmcore.runs.transcript import mend
from llmcore.tools.base import Effect
from llmcore.trace import RunTrace, StepKind
from llmcore.usage import Prices
from tests.llmcore.conftest import LoopBench, call
from tests.llmcore.test_budgeted_client import MemoryStore, within
from tests.llmcore.test_fallback import BUSY, route, say
from tests.llmcore.test_fallback import run as run_routes
from tests.llmcore.test_model_client import Notes

SAID = "Orders 1 and 2 left on Monday."
LONG = "The order left the house on Monday, and nobody has seen it since. "
PRICES = Prices(input=Decimal(2), output=Decimal(10))
# Room for about four results.
WINDOW = 1_000


class Ledger:
    """A meter that keeps what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, CallPurpose, Decimal | None]] = []

    def record(self, call: ModelCall, response: Any, cost: Decimal | None) -> None:
        self.calls.append((call.model.name, call.purpose, cost))


@pytest.fixture(autouse=True)
def crowded(bench: LoopBench) -> None:
    bench.language_model = LanguageModel(name="scripted", context_window=WINDOW, max_output_tokens=100)
    # The last turn repeats until there are no more rounds.
    bench.script(*(Turn(text=f"Turn {n}.", tool_calls=(call("look_up", {"number": n}),)) for n in range(9)))
    summaries(bench, Turn(text=SAID))

    @bench.tools.tool()
    async def look_up(number: int) -> str:
        """Look up an order."""
        return LONG * 10


def summaries(bench: LoopBench, *turns: Turn, times: int | None = None) -> None:
    say(bench, "short", *turns, times=times)


def summarizer(bench: LoopBench, **changes: Any) -> Summarizer:
    there = route(bench, "short", context_window=20_000, prices=PRICES)
    return Summarizer(**{"name": "Shortener", "route": there, **changes})


def state(bench: LoopBench, *messages: Message, **limits: Any) -> RunState:
    return bench.state(*messages, **{"max_rounds": 8, "compact_at_percent": 80, "keep_turns": 2, **limits})


async def run(bench: LoopBench, begin: RunState | None = None, **options: Any) -> Any:
    settings = {"summarizer": summarizer(bench), **options}
    return await bench.run(state(bench) if begin is None else begin, **settings)


def asked_of(bench: LoopBench, model: str) -> list[Any]:
    return [request.json for request in bench.requests if request.json.get("model") == model]


async def test_the_oldest_turns_give_way_to_a_summary(bench: LoopBench) -> None:  # C2, C3
    ledger = Ledger()
    bench.client._meter = ledger
    end = await run(bench)

    assert end.outcome.reason is EndReason.MAX_ROUNDS
    first, *_ = bench.data(StepKind.COMPACTION)
    assert (first["problem"], first["summarizer"], first["model"]) == (None, "Shortener", "short")
    assert first["tokens_after"] < first["tokens_before"] and first["messages"] >= 2
    assert Decimal(first["cost"]) > 0 and first["usage"]["input_tokens"] > 0
    assert bench.trace.contents[first["message"]]["parts"][0]["text"] == f"{SUMMARY}\n\n{SAID}"
    assert "Call of look_up" in bench.trace.contents[first["record"]] and LONG in bench.trace.contents[first["record"]]
    # It came from the summarizer, without tools, and is counted as such.
    [summarized, *_] = asked_of(bench, "short")
    assert "tools" not in summarized and [m["role"] for m in summarized["messages"]] == ["system", "user"]
    assert "Where is my order?" in summarized["messages"][1]["content"]
    assert ("short", CallPurpose.SUMMARY, Decimal(first["cost"])) in ledger.calls
    assert ("scripted", CallPurpose.ROUND, None) in ledger.calls


async def test_no_request_is_larger_than_its_window(bench: LoopBench) -> None:
    end = await run(bench)
    for use in bench.data(StepKind.CONTEXT):
        assert use["used"] + use["reserve"] + use["margin"] + use["free"] == WINDOW and use["free"] >= 0
    for body in asked_of(bench, "scripted"):
        assert body["messages"][0]["content"] == "Where is my order?"
        assert sum(str(message["content"]).startswith(SUMMARY) for message in body["messages"]) <= 1
    assert mend(end.state.messages) == (list(end.state.messages), [])  # L13
    assert sum(map(is_summary, end.state.messages)) == 1


async def test_there_is_one_pass_a_round_and_the_next_summary_knows_of_the_one_before(bench: LoopBench) -> None:
    await run(bench)
    rounds = [step.round for step in bench.steps(StepKind.COMPACTION)]
    assert len(rounds) == len(set(rounds)) > 1
    assert f"Summary of what came before:\n{SAID}" in asked_of(bench, "short")[1]["messages"][1]["content"]


async def test_the_trace_keeps_differences(bench: LoopBench) -> None:  # T4
    await run(bench)
    steps = bench.trace.steps
    after = [i for i, step in enumerate(steps) if step.kind is StepKind.COMPACTION]
    for index in after:
        request = steps[index + 1]
        assert request.kind is StepKind.REQUEST and request.data["compacted"] is True
        assert request.data["kept"] >= 1 and len(request.data["added"]) <= 2 * 2 + 1
    assert sum("compacted" in data for data in bench.data(StepKind.REQUEST)) == len(after)


@pytest.mark.parametrize(
    ("turn", "problem"),
    [
        (Turn(status=401, error="Bad key."), "failed"),
        (Turn(text="Order 1 left on", finish_reason="length"), "cut_off"),
        (Turn(text="  "), "empty"),
        (Turn(text=LONG * 40), "no_gain"),
    ],
)
async def test_without_a_good_summary_the_turns_are_left_out_and_the_model_is_told(
    bench: LoopBench, turn: Turn, problem: str
) -> None:  # C3
    summaries(bench, turn)

    end = await run(bench)

    assert end.outcome.reason is EndReason.MAX_ROUNDS
    first, *_ = bench.data(StepKind.COMPACTION)
    assert first["problem"] == problem and first["tokens_after"] < first["tokens_before"]
    assert bench.trace.contents[first["message"]]["parts"][0]["text"] == LEFT_OUT
    assert any(message["content"] == LEFT_OUT for message in asked_of(bench, "scripted")[-1]["messages"])
    assert (first["error"] is not None) == (problem == "failed")


async def test_a_model_summarizes_for_itself_where_nobody_else_is_named(bench: LoopBench) -> None:
    bench.script(Turn(tool_calls=(call("look_up", {"number": 1}),)))

    await run(bench, summarizer=None)

    first, *_ = bench.data(StepKind.COMPACTION)
    assert (first["summarizer"], first["model"]) == ("", "scripted")


@pytest.mark.parametrize("limits", [{"compact_at_percent": 0}, {"keep_turns": 100, "max_rounds": 3}])
async def test_nothing_is_summarized_where_that_is_off_or_there_is_room(
    bench: LoopBench, limits: dict[str, int]
) -> None:
    await run(bench, state(bench, **limits))
    assert bench.data(StepKind.COMPACTION) == [] and asked_of(bench, "short") == []


async def test_a_window_that_is_not_known_is_never_full(bench: LoopBench) -> None:
    bench.language_model = LanguageModel(name="scripted")
    end = await run(bench)
    assert bench.data(StepKind.COMPACTION) == [] and end.outcome.reason is EndReason.MAX_ROUNDS


async def test_fewer_turns_stay_where_there_is_no_room_for_more(bench: LoopBench) -> None:
    end = await run(bench, state(bench, keep_turns=50))
    assert bench.data(StepKind.COMPACTION) and end.outcome.reason is EndReason.MAX_ROUNDS


# C4


async def test_a_prompt_without_room_for_an_answer_is_not_sent(bench: LoopBench) -> None:  # C4
    end = await run(bench, state(bench, Message.of("user", LONG * 100)))

    assert (end.outcome.reason, bench.requests) == (EndReason.CONTEXT_EXHAUSTED, [])
    assert "Nothing was sent" in end.outcome.detail and "1,000" in end.outcome.detail
    assert [step.kind for step in bench.trace.steps] == [StepKind.CONTEXT]
    assert bench.trace.steps[0].data["free"] < 0 and end.state.rounds_used == 0


async def test_a_prompt_that_leaves_less_than_was_asked_for_is_not_sent(bench: LoopBench) -> None:
    long = Message.of("user", LONG * 50)
    end = await run(bench, replace(state(bench, long), parameters=Parameters(max_tokens=400)))
    assert end.outcome.reason is EndReason.CONTEXT_EXHAUSTED and "max tokens asks for 400" in end.outcome.detail

    # Where nobody limited the answer, the model may use what is left.
    bench.trace = RunTrace()
    end = await run(bench, state(bench, long, max_rounds=1), tools={})
    assert end.outcome.reason is not EndReason.CONTEXT_EXHAUSTED


async def test_a_result_that_fills_the_window_ends_the_run_and_keeps_what_was_done(bench: LoopBench) -> None:
    @bench.tools.tool()
    async def read_all() -> str:
        """Read everything."""
        return LONG * 200

    bench.script(Turn(tool_calls=(call("read_all"),)), Turn(text="Done."))
    end = await run(bench)
    assert end.outcome.reason is EndReason.CONTEXT_EXHAUSTED and end.state.rounds_used == 1
    assert len(bench.requests) == 1 and bench.data(StepKind.TOOL_RESULT)


async def test_no_summary_is_paid_for_where_there_is_no_room_even_with_it(bench: LoopBench) -> None:
    @bench.tools.tool()
    async def read_all() -> str:
        """Read everything."""
        return LONG * 200

    looks = [Turn(tool_calls=(call("look_up", {"number": n}),)) for n in range(2)]
    bench.script(*looks, Turn(tool_calls=(call("read_all"),)))
    end = await run(bench)
    assert end.outcome.reason is EndReason.CONTEXT_EXHAUSTED and asked_of(bench, "short") == []


async def test_without_a_trace_the_window_is_kept_to_all_the_same(bench: LoopBench) -> None:
    end = await run(bench, trace=None)
    assert end.outcome.reason is EndReason.MAX_ROUNDS and sum(map(is_summary, end.state.messages)) == 1
    assert bench.trace.steps == []


# The state


async def test_a_run_goes_on_from_every_prefix_of_its_steps(bench: LoopBench) -> None:  # L15b
    initial = state(bench)
    end = await run(bench, initial)
    steps, contents = list(bench.trace.steps), bench.trace.contents
    assert replay(initial, steps, contents) == end.state
    for length in range(len(steps) + 1):
        trace = RunTrace(steps=steps[:length], contents=contents)
        again = await run(bench, RunState.from_json(replay(initial, trace.steps, contents).to_json()), trace=trace)
        assert again.outcome.reason is EndReason.MAX_ROUNDS, length
        assert mend(again.state.messages) == (list(again.state.messages), []), length
        assert replay(initial, trace.steps, trace.contents) == again.state, length
        assert RunTrace.from_json(json.loads(json.dumps(trace.to_json()))).steps == trace.steps  # T6


async def test_what_was_decided_about_a_call_that_gave_way_holds_for_no_later_one(bench: LoopBench) -> None:
    paid: list[int] = []

    @bench.tools.tool(effect=Effect.NON_IDEMPOTENT_WRITE, requires_approval=True)
    def pay(number: int) -> str:
        """Pay."""
        paid.append(number)
        return "paid"

    # A server that numbers its calls anew in each answer.
    looks = (Turn(tool_calls=(call("look_up", {"number": n}, id="1"),)) for n in range(5))
    pay_one = Turn(tool_calls=(call("pay", {"number": 1}, id="1"),))
    turns = (pay_one, *looks, pay_one)
    bench.model.scenarios["scripted"] = Scenario(name="scripted", turns=turns, by_last_call=True)
    first = await run(bench, policy=Policy())
    assert first.proposal is not None
    [action] = first.proposal.actions
    decisions = {action.call.id: Decision(kind=DecisionKind.APPROVE, key=action.key)}

    end = await run(bench, replace(first.state, decisions=decisions), policy=Policy())

    assert bench.data(StepKind.COMPACTION)
    assert end.proposal is not None and paid == [1]  # P3
    ids = [data["call_id"] for data in bench.data(StepKind.TOOL_CALL)] + [end.proposal.actions[0].call.id]
    assert len(ids) == len(set(ids)) == 7  # L8


async def test_a_fork_begins_before_or_after_the_summary(bench: LoopBench) -> None:
    initial = state(bench)
    await run(bench, initial)
    steps, contents = bench.trace.steps, bench.trace.contents
    compaction = bench.steps(StepKind.COMPACTION)[0]
    request = next(step for step in steps if step.sequence == compaction.sequence + 1)

    def forked(at: int) -> RunState:
        end = end_of_fork(steps, at)
        return replay(initial, [step for step in steps if step.sequence < end], contents)

    before, after = forked(compaction.sequence), forked(request.sequence)
    assert before.rounds_used == after.rounds_used == request.round - 1
    assert not any(map(is_summary, before.messages)) and any(map(is_summary, after.messages))
    context = next(step for step in steps if step.sequence == request.sequence + 1)
    assert forked(context.sequence) == after, "a window belongs to its request"

    bench.trace = RunTrace()
    again = await run(bench, before)
    assert again.outcome.reason is EndReason.MAX_ROUNDS and bench.steps(StepKind.COMPACTION)[0].round == request.round


async def test_who_cancels_while_a_summary_is_written_gets_the_end(bench: LoopBench) -> None:
    summaries(bench, Turn(text="word " * 500, chunk_delay_s=0.05))
    cancel = asyncio.Event()
    running = asyncio.create_task(run(bench, cancel=cancel))
    while not asked_of(bench, "short"):
        await asyncio.sleep(0.005)
    cancel.set()
    end = await running
    assert end.outcome.reason is EndReason.CANCELLED and bench.data(StepKind.COMPACTION) == []
    # Whoever goes on from here does it again.
    summaries(bench, Turn(text=SAID))
    again = await run(bench, end.state)
    assert again.outcome.reason is EndReason.MAX_ROUNDS


async def test_what_another_model_wrote_is_known_after_a_summary_too(bench: LoopBench) -> None:
    turns = [Turn(text=f"Turn {n}.", tool_calls=(call("look_up", {"number": n}),)) for n in range(9)]
    say(bench, "first", turns[0], turns[1], BUSY)
    say(bench, "second", *turns)
    end = await run_routes(
        bench,
        route(bench, "first", context_window=WINDOW, max_output_tokens=100),
        route(bench, "second", context_window=WINDOW, max_output_tokens=100),
        state=state(bench),
        summarizer=summarizer(bench),
    )
    assert end.outcome.reason is EndReason.MAX_ROUNDS and end.state.route == "at-second/second"
    assert bench.data(StepKind.COMPACTION) and 0 <= end.state.foreign <= 2, "its turns were folded by now"
    assert replay(state(bench), bench.trace.steps, bench.trace.contents) == end.state


@pytest.mark.parametrize("adapter", sorted(adapters()))
async def test_every_wire_takes_a_transcript_with_a_summary(bench: LoopBench, adapter: str) -> None:
    bench.adapter = adapter
    bench.language_model = replace(bench.language_model, supports_thinking=True)
    bench.script(
        *(
            Turn(text=f"Turn {n}.", thinking="Hm.", tool_calls=(call("look_up", {"number": n}),), usage={})
            for n in range(9)
        )
    )
    end = await run(bench)
    assert end.outcome.reason is EndReason.MAX_ROUNDS, end.outcome.detail
    assert bench.data(StepKind.COMPACTION) and SAID in json.dumps(bench.bodies[-1])


async def test_a_summary_is_reserved_for_and_settled_like_any_call(bench: LoopBench) -> None:  # M3
    store = MemoryStore()
    async with within(store, Notes()) as bench.client:
        await run(bench)
    first, *_ = bench.data(StepKind.COMPACTION)
    assert first["budgets"] and any(need.model == "short" for need in store.reserved)
    found = [finding for finding in find(RunView(steps=bench.trace.steps)) if finding.id == "budget_near_limit"]
    assert [finding.title for finding in found] == ["This run brought today's budget “Small” to 70 % of its tokens"]


async def test_a_summary_that_no_budget_allows_leaves_the_turns_as_they_are(bench: LoopBench) -> None:
    # Enough for each round, and not for a summary, whose answer may be longer.
    store = MemoryStore(limit=1_200)
    async with within(store, Notes()) as bench.client:
        end = await run(bench)
    assert bench.data(StepKind.COMPACTION) == [] and asked_of(bench, "short") == []
    assert end.outcome.reason in (EndReason.CONTEXT_EXHAUSTED, EndReason.BUDGET_EXHAUSTED)
    assert not any(map(is_summary, end.state.messages))
