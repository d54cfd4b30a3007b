"""The loop's rounds: how many, with what, and how each way of ending looks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llmcore.configuration import LanguageModel, Limits, Parameters
from llmcore.errors import ErrorKind
from llmcore.messages import FinishReason, Message, Part
from llmcore.providers.scripted import Turn
from llmcore.runs.hooks import Hooks
from llmcore.runs.outcome import STATUS_OF, EndReason, RunStatus
from llmcore.runs.state import replay
from llmcore.trace import StepKind
from tests.llmcore.conftest import LoopBench, call

ASK_AGAIN = Turn(tool_calls=(call("look_up", {"number": "1"}),))


@pytest.fixture(autouse=True)
def look_up(bench: LoopBench) -> list[str]:
    looked_up: list[str] = []

    @bench.tools.tool()
    async def look_up(number: str) -> str:
        """Look up an order."""
        looked_up.append(number)
        return f"order {number} is on its way"

    return looked_up


async def test_a_run_goes_on_until_the_model_answers_without_calls(bench: LoopBench, look_up: list[str]) -> None:
    bench.script(
        Turn(tool_calls=(call("look_up", {"number": "1"}),)),
        Turn(text="Another one.", tool_calls=(call("look_up", {"number": "2"}),)),
        Turn(text="Both are on their way."),
    )

    end = await bench.run()

    assert (end.outcome.reason, end.outcome.answer) == (EndReason.COMPLETED, "Both are on their way.")
    assert look_up == ["1", "2"]
    assert len(bench.requests) == 3  # L1: one provider call a round
    assert end.state.rounds_used == 3
    assert [message.role for message in end.state.messages] == ["user", *["assistant", "tool"] * 2, "assistant"]
    assert bench.results_sent() == ["order 1 is on its way", "order 2 is on its way"]


def test_five_rounds_are_the_default() -> None:
    assert Limits().max_rounds == 5  # L1


async def test_the_last_completion_at_the_limit_calls_no_tool_in_a_round_of_its_own(bench: LoopBench) -> None:
    bench.script(ASK_AGAIN)

    end = await bench.run(bench.state(max_rounds=2))

    assert len(bench.requests) == 3  # L1, L4
    assert (end.outcome.reason, end.outcome.status) == (EndReason.MAX_ROUNDS, RunStatus.INCOMPLETE)
    assert end.outcome.answer.startswith("I can't look anything up now")
    assert [body.get("tool_choice") for body in bench.bodies] == [None, None, "none"]
    assert bench.bodies[0]["tools"] == bench.bodies[2]["tools"]
    assert [data["last"] for data in bench.data(StepKind.REQUEST)] == [False, False, True]
    assert [step.round for step in bench.steps(StepKind.RESPONSE)] == [1, 2, 3]


async def test_a_call_in_the_last_completion_is_not_run(bench: LoopBench, look_up: list[str]) -> None:
    stubborn = {
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": "One more.",
                    "tool_calls": [
                        {"id": "x", "type": "function", "function": {"name": "look_up", "arguments": '{"number":"9"}'}}
                    ],
                },
            }
        ]
    }
    bench.script(ASK_AGAIN, Turn(raw=json.dumps(stubborn), headers={"content-type": "application/json"}))

    end = await bench.run(bench.state(max_rounds=1, parameters=Parameters(stream=False)))

    assert look_up == ["1"]  # L4
    assert (end.outcome.reason, end.outcome.answer) == (EndReason.MAX_ROUNDS, "One more.")
    assert bench.data(StepKind.TOOL_RESULT)[-1]["error_kind"] == "round_limit"
    assert end.state.messages[-1].tool_call_id == end.state.messages[-2].tool_calls[0].id  # L13


@pytest.mark.parametrize("wire", ["ollama", "openai_compat"])
async def test_where_the_wire_has_no_such_choice_the_last_request_offers_no_tools(bench: LoopBench, wire: str) -> None:
    bench.adapter = wire
    bench.language_model = LanguageModel(name="scripted", supports_tool_choice=False)
    state = bench.state(max_rounds=0)

    bench.loop().dry_run(state)

    body = json.loads(bench.trace.contents[bench.data(StepKind.ASSEMBLED)[0]["body"]])
    assert "tools" not in body and "tool_choice" not in body  # L3, L4


async def test_with_no_tool_offered_the_request_has_no_trace_of_tools(bench: LoopBench) -> None:
    bench.script(Turn(text="I don't know."))

    end = await bench.run(bench.state(offered=()))

    assert end.outcome.reason is EndReason.COMPLETED
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(bench.bodies[0])  # L3
    assert bench.data(StepKind.REQUEST)[0]["tools"] is None


async def test_parameters_reach_every_call_the_last_one_too(bench: LoopBench) -> None:
    bench.script(ASK_AGAIN)

    await bench.run(bench.state(max_rounds=2, parameters=Parameters(temperature=0.25, max_tokens=77, top_p=0.5)))

    sent = [(body["temperature"], body["top_p"], body["max_tokens"]) for body in bench.bodies]
    assert sent == [(0.25, 0.5, 77)] * 3  # L5


async def test_raw_capture_reaches_every_call_the_last_one_too(bench: LoopBench) -> None:
    exchanges: list[int] = []

    class Listener:
        def step(self, step: Any, contents: Any) -> None: ...
        def delta(self, round: int, delta: Any) -> None: ...
        def exchange(self, sequence: int, exchange: Any) -> None:
            exchanges.append(sequence)

        async def committed(self) -> None: ...

    bench.trace = type(bench.trace)(Listener())
    bench.script(ASK_AGAIN)

    await bench.run(bench.state(max_rounds=2), capture_raw=True)

    assert exchanges == [step.sequence for step in bench.steps(StepKind.REQUEST)]  # L5, T5
    assert len(exchanges) == 3


async def test_a_pause_is_sent_on_and_counts_as_a_round(bench: LoopBench) -> None:
    bench.script(Turn(text="The rest follows."))
    paused = Message(role="assistant", parts=(Part(text="I need a moment. "),))
    state = bench.state(Message.of("user", "Go."), paused)

    end = await bench.run(with_finish(state, FinishReason.PAUSE, rounds_used=1))

    assert end.outcome.reason is EndReason.COMPLETED  # L14
    assert end.state.rounds_used == 2
    assert bench.bodies[0]["messages"][-1]["content"] == "I need a moment. "


def with_finish(state: Any, reason: FinishReason, *, rounds_used: int) -> Any:
    data = {**state.to_json(), "finish_reason": reason.value, "rounds_used": rounds_used}
    return type(state).from_json(data)


async def test_an_answer_cut_by_its_length_ends_truncated_and_its_calls_are_not_run(
    bench: LoopBench, look_up: list[str]
) -> None:
    bench.script(Turn(text="Let me", tool_calls=(call("look_up", '{"number": "1'),), finish_reason="length"))

    end = await bench.run()

    assert (end.outcome.reason, end.outcome.answer) == (EndReason.TRUNCATED, "Let me")  # L14
    assert look_up == []
    assert bench.data(StepKind.TOOL_RESULT)[0]["error_kind"] == "cut_off"
    assert end.state.messages[-1].role == "tool" and end.state.messages[-1].is_error  # L13


async def test_a_whole_call_in_a_cut_answer_is_not_run_either(bench: LoopBench, look_up: list[str]) -> None:
    bench.script(Turn(tool_calls=(call("look_up", {"number": "1"}),), finish_reason="length"))

    end = await bench.run()

    assert end.outcome.reason is EndReason.TRUNCATED and look_up == []


@pytest.mark.parametrize(("finish", "reason"), [("length", "truncated"), ("content_filter", "content_filtered")])
async def test_what_was_said_before_a_call_is_not_the_answer_that_never_came(
    bench: LoopBench, finish: str, reason: str
) -> None:
    bench.script(Turn(text="Let me look.", tool_calls=(call("look_up", {"number": "1"}),)), Turn(finish_reason=finish))
    initial = bench.state()

    end = await bench.run(initial)

    assert (end.outcome.reason, end.outcome.answer) == (EndReason(reason), "")  # L14
    assert replay(initial, bench.trace.steps, bench.trace.contents) == end.state


ENDS = {
    EndReason.CONTENT_FILTERED: Turn(text="Half a", finish_reason="content_filter"),
    EndReason.EMPTY_ANSWER: Turn(text=""),
    EndReason.PROVIDER_FAILED: Turn(status=401, error={"message": "Bad key.", "code": "invalid_api_key"}),
    EndReason.CONTEXT_EXHAUSTED: Turn(
        status=400, error={"message": "maximum context length is 10", "code": "context_length_exceeded"}
    ),
    EndReason.TRUNCATED: Turn(text="Half", finish_reason="length"),
    EndReason.COMPLETED: Turn(text="Whole."),
}


@pytest.mark.parametrize("reason", ENDS)
async def test_what_the_provider_gives_decides_the_end(bench: LoopBench, reason: EndReason) -> None:
    bench.script(ENDS[reason])

    end = await bench.run()

    assert (end.outcome.reason, end.outcome.status) == (reason, STATUS_OF[reason])  # L14
    assert reason is EndReason.COMPLETED or end.outcome.detail


async def test_a_failure_after_some_rounds_keeps_all_that_was_recorded(bench: LoopBench) -> None:
    bench.script(ASK_AGAIN, Turn(status=401, error="Bad key."))

    end = await bench.run()

    assert end.outcome.reason is EndReason.PROVIDER_FAILED  # L15
    assert end.outcome.error and end.outcome.error.kind is ErrorKind.AUTHENTICATION
    kinds = [step.kind.value for step in bench.trace.steps]
    assert kinds == ["request", "context", "response", "tool_call", "tool_result", "request", "context", "response"]
    assert bench.data(StepKind.RESPONSE)[-1]["error"]["kind"] == "authentication"
    assert [message.role for message in end.state.messages] == ["user", "assistant", "tool"]


async def test_a_stream_that_breaks_off_keeps_what_had_arrived(bench: LoopBench) -> None:
    bench.script(Turn(text="This will never be finished.", cut_after_chars=9))

    end = await bench.run()

    assert end.outcome.reason is EndReason.PROVIDER_FAILED  # L15
    assert end.outcome.answer.startswith("This will")
    kept = bench.trace.contents[bench.data(StepKind.RESPONSE)[0]["message"]]
    assert kept["parts"][0]["text"].startswith("This will")
    assert end.state.messages == bench.state().messages


async def test_retries_are_steps_between_the_request_and_its_response(bench: LoopBench) -> None:
    bench.script(Turn(status=503, error="Busy.", headers={"retry-after-ms": "1"}), Turn(text="Here."), times=1)

    end = await bench.run()

    assert end.outcome.reason is EndReason.COMPLETED
    assert [step.kind.value for step in bench.trace.steps] == ["request", "context", "retry", "response"]
    assert bench.data(StepKind.RETRY)[0]["attempt"] == 1
    assert bench.data(StepKind.RESPONSE)[0]["attempts"] == 2
    assert end.state.rounds_used == 1


async def test_an_error_of_our_own_ends_the_run_with_an_error_step(bench: LoopBench) -> None:
    bench.script(ASK_AGAIN)

    def broken(*_: Any) -> None:
        raise KeyError("secret-value")

    end = await bench.run(hooks=Hooks(pre_tool_use=(broken,)), redact=lambda text: text.replace("secret-value", "•••"))

    assert (end.outcome.reason, end.outcome.status) == (EndReason.INTERNAL_ERROR, RunStatus.FAILED)  # L14
    assert "KeyError" in end.outcome.detail and "secret-value" not in end.outcome.detail
    (error,) = bench.data(StepKind.ERROR)
    assert "broken" in bench.trace.contents[error["traceback"]]
    assert "secret-value" not in json.dumps(bench.trace.to_json())
    assert [step.kind.value for step in bench.trace.steps] == [
        "request",
        "context",
        "response",
        "tool_call",
        "tool_result",
        "error",
    ]  # L15


async def test_a_record_that_can_not_be_used_is_an_outcome_that_says_so(bench: LoopBench) -> None:
    bench.adapter = "telegraph"

    for end in (await bench.run(), bench.loop().dry_run(bench.state())):
        assert end.outcome.reason is EndReason.INTERNAL_ERROR
        assert "telegraph" in end.outcome.detail


async def test_a_dry_run_sends_nothing_and_shows_the_bytes_of_round_one(bench: LoopBench) -> None:
    bench.script(Turn(text="Here."))
    state = bench.state(parameters=Parameters(temperature=0.1))

    end = bench.loop().dry_run(state)

    assert end.outcome.reason is EndReason.DRY_RUN and bench.requests == []  # A5
    assert end.state == state
    (assembled,) = bench.data(StepKind.ASSEMBLED)
    await bench.run(state)
    sent = bench.requests[0].body
    assert bench.trace.contents[assembled["body"]].encode() == sent
    assert assembled["body_sha256"] == bench.data(StepKind.REQUEST)[0]["body_sha256"]
    assert assembled["body_bytes"] == len(sent)


async def test_provider_parts_go_back_unchanged(bench: LoopBench) -> None:
    signed = Part(kind="thinking", text="hm", extra={"signature": "abc=="})
    first = Message(role="assistant", parts=(signed, Part(text="So: ")))
    bench.script(Turn(text="done"))

    end = await bench.run(bench.state(Message.of("user", "a"), first, Message.of("user", "b")))

    assert end.state.messages[1] is first  # L11: nothing between model and wire touches a signed part
