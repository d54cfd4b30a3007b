"""What a trace records, when, and how much: nothing without one, and each message once with one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from llmcore.configuration import LanguageModel, Parameters
from llmcore.messages import JSON
from llmcore.metering.client import ModelClient, open_http
from llmcore.providers.scripted import Turn
from llmcore.trace import Delta, RunStep, RunTrace, StepKind, WireExchange, messages_of
from llmcore.usage import Prices
from tests.llmcore.conftest import LoopBench, call

TURNS = (
    Turn(thinking="Hm.", text="I look.", tool_calls=(call("look_up", {"n": 1}), call("look_up", {"n": 2}))),
    Turn(text="Done."),
)


@pytest.fixture(autouse=True)
def _look_up(bench: LoopBench) -> None:
    @bench.tools.tool()
    async def look_up(n: int) -> str:
        """Look up an order."""
        return f"order {n}"

    bench.script(*TURNS)


class Everything:
    """A listener that keeps all it gets, and how many requests had gone out by then."""

    def __init__(self, bench: LoopBench) -> None:
        self.bench = bench
        self.steps: list[RunStep] = []
        self.contents: dict[str, JSON] = {}
        self.sent_by_then: list[int] = []
        self.deltas: list[tuple[int, str, str]] = []
        self.exchanges: list[tuple[int, WireExchange]] = []

    def step(self, step: RunStep, contents: Mapping[str, JSON]) -> None:
        assert not self.contents.keys() & contents.keys(), "a content is handed out once"
        self.steps.append(step)
        self.contents.update(contents)
        self.sent_by_then.append(len(self.bench.requests))

    def delta(self, round: int, delta: Delta) -> None:
        self.deltas.append((round, delta.kind, delta.text))

    def exchange(self, sequence: int, exchange: WireExchange) -> None:
        self.exchanges.append((sequence, exchange))

    async def committed(self) -> None: ...


@pytest.fixture
def listener(bench: LoopBench) -> Everything:
    listener = Everything(bench)
    bench.trace = RunTrace(listener)
    return listener


async def test_without_a_trace_a_run_is_the_same_and_nothing_is_kept(bench: LoopBench) -> None:
    with_trace = await bench.run()
    sent = [request.body for request in bench.requests]
    bench.requests.clear()

    without = await bench.run(trace=None, capture_raw=True)

    assert [message.text for message in without.state.messages] == [m.text for m in with_trace.state.messages]  # T1
    assert [len(request.body) for request in bench.requests] == [len(body) for body in sent]


async def test_each_step_reaches_the_listener_at_once_and_the_request_before_it_goes_out(
    bench: LoopBench, listener: Everything
) -> None:
    await bench.run()

    assert listener.steps == bench.trace.steps  # T3
    assert listener.contents == bench.trace.contents
    sent = {kind: [] for kind in StepKind}
    for step, count in zip(listener.steps, listener.sent_by_then, strict=True):
        sent[step.kind].append(count)
    assert sent[StepKind.REQUEST] == [0, 1]
    assert sent[StepKind.RESPONSE] == [1, 2]


async def test_pieces_of_the_answer_reach_the_listener_while_they_come(bench: LoopBench, listener: Everything) -> None:
    await bench.run()

    def joined(round: int, kind: str) -> str:
        return "".join(text for number, k, text in listener.deltas if (number, k) == (round, kind))

    assert joined(1, "text") == "I look." and joined(2, "text") == "Done."  # W3
    assert joined(1, "tool_call")


async def test_steps_are_numbered_and_timed_in_order(bench: LoopBench) -> None:
    await bench.run()

    steps = bench.trace.steps
    assert [step.sequence for step in steps] == list(range(1, len(steps) + 1))  # T2
    assert [step.kind.value for step in steps] == [
        "request", "context", "response", "tool_call", "tool_call", "tool_result", "tool_result",
        "request", "context", "response",
    ]  # fmt: skip
    assert [step.round for step in steps] == [1] * 7 + [2] * 3
    ends = [step.started_ms + step.duration_ms for step in steps]
    assert all(start.started_ms <= end for start, end in zip(steps, ends, strict=True))
    assert steps[7].started_ms >= max(ends[:7])


async def test_a_response_step_says_what_came_and_what_it_cost(bench: LoopBench) -> None:
    bench.language_model = LanguageModel(name="scripted", prices=Prices(input=Decimal(2), output=Decimal(10)))
    usage = {"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100}
    bench.script(Turn(text="Done.", usage=usage))

    await bench.run()

    (data,) = bench.data(StepKind.RESPONSE)
    assert data["usage"]["input_tokens"] == 1_000 and Decimal(data["cost"]) == Decimal("0.003")  # T2
    assert data["finish_reason"] == "stop" and data["served_model"] == "scripted"
    assert data["first_token_ms"] > 0 and data["text_chars"] == 5
    assert bench.trace.contents[data["message"]]["parts"] == [{"kind": "text", "text": "Done."}]


async def test_what_is_unknown_is_null_and_not_zero(bench: LoopBench) -> None:
    bench.script(Turn(text="Done.", usage={}))

    await bench.run()

    (data,) = bench.data(StepKind.RESPONSE)
    assert data["usage"] is None or data["usage"]["input_tokens"] is None  # T6
    assert data["cost"] is None


async def test_a_request_names_only_the_messages_that_are_new(bench: LoopBench) -> None:
    await bench.run()

    first, second = bench.steps(StepKind.REQUEST)
    assert (first.data["kept"], len(first.data["added"])) == (0, 1)  # T4
    assert (second.data["kept"], len(second.data["added"]), second.data["messages"]) == (1, 3, 4)
    assert first.data["tools"] == second.data["tools"]
    digests = messages_of(bench.trace.steps, second.sequence)
    roles = [bench.trace.contents[digest]["role"] for digest in digests]
    assert roles == ["user", "assistant", "tool", "tool"]
    assert second.data["input_tokens_estimate"] > first.data["input_tokens_estimate"] > 0


async def test_hash_and_size_of_each_body_are_kept(bench: LoopBench) -> None:
    await bench.run()

    for data, request in zip(bench.data(StepKind.REQUEST), bench.requests, strict=True):
        assert data["body_sha256"] == hashlib.sha256(request.body).hexdigest()  # T5
        assert data["body_bytes"] == len(request.body)


async def test_raw_capture_is_off_unless_asked_for_and_changes_nothing(bench: LoopBench) -> None:
    def parsed(trace: RunTrace) -> list[Any]:
        varying = {"first_token_ms", "thinking_ms", "wall_ms"}
        return [{k: v for k, v in step.data.items() if k not in varying} for step in trace.steps]

    off, on = Everything(bench), Everything(bench)
    traces = [RunTrace(off), RunTrace(on)]

    await bench.run(trace=traces[0])
    bench.requests.clear()
    await bench.run(trace=traces[1], capture_raw=True)

    assert off.exchanges == []  # T5
    assert parsed(traces[0]) == parsed(traces[1])
    assert traces[0].contents == traces[1].contents
    assert [sequence for sequence, _ in on.exchanges] == [
        s.sequence for s in traces[1].steps if s.kind is StepKind.REQUEST
    ]
    assert [exchange.request_body for _, exchange in on.exchanges] == [request.body for request in bench.requests]


async def test_each_attempt_of_a_retry_is_captured(bench: LoopBench, listener: Everything) -> None:
    bench.script(Turn(status=503, error="Busy.", headers={"retry-after-ms": "1"}), Turn(text="Here."), times=1)

    await bench.run(capture_raw=True)

    assert [(exchange.attempt, exchange.status) for _, exchange in listener.exchanges] == [(1, 503), (2, 200)]  # T5


async def test_a_trace_round_trips_as_json_without_loss(bench: LoopBench) -> None:
    await bench.run()

    read = RunTrace.from_json(json.loads(json.dumps(bench.trace.to_json())))

    assert read.steps == bench.trace.steps and read.contents == bench.trace.contents  # T6


async def test_a_step_can_not_be_changed(bench: LoopBench) -> None:
    await bench.run()

    with pytest.raises(AttributeError):
        bench.trace.steps[0].round = 7  # type: ignore[misc]  # T6


async def test_ten_times_the_rounds_take_ten_times_the_trace(bench: LoopBench) -> None:
    """Bytes, not time: with a clock that stands still they are the same in each run."""
    async with open_http() as http:
        client = ModelClient(http=http, clock=lambda: 0.0)
        sizes = {rounds: await trace_bytes(bench, client, rounds) for rounds in (20, 200)}

    assert sizes[200] < 10.5 * sizes[20]  # T4


async def trace_bytes(bench: LoopBench, client: ModelClient, rounds: int) -> int:
    asking = [Turn(tool_calls=(call("look_up", {"n": 1000 + n}),)) for n in range(rounds - 1)]
    bench.script(*asking, Turn(text="Done."))
    bench.client = client
    trace = RunTrace(clock=lambda: 0.0)

    end = await bench.run(bench.state(max_rounds=rounds, parameters=Parameters(stream=False)), trace=trace)

    assert end.state.rounds_used == rounds
    return len(json.dumps(trace.to_json()))
