"""Whole runs of the tool loop over each wire format, against a scripted model that refuses what the services would."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from llmcore.configuration import LanguageModel, Parameters
from llmcore.errors import ErrorKind, ToolError
from llmcore.messages import Message, Part
from llmcore.providers.registry import adapters
from llmcore.providers.scripted import Turn
from llmcore.runs.outcome import EndReason
from llmcore.trace import StepKind
from tests.llmcore.conftest import LoopBench, call

ASKED = (
    Message.of("system", "Be brief."),
    Message.of("system", "Be polite."),
    Message(role="user", parts=(Part(text="Rules.", cache_boundary=True), Part(text="Where is my order?"))),
)
TWO_ROUNDS = (
    Turn(
        thinking="Two orders. I look both up.",
        text="One moment.",
        tool_calls=(call("look_up", {"number": "Ø-1", "how": {"deep": [1, 2]}}), call("look_up", {"number": "none"})),
    ),
    Turn(thinking="One is missing.", tool_calls=(call("look_up", {"number": "2"}),)),
    Turn(text="Ø-1 and 2 are on their way."),
)


@pytest.fixture(params=sorted(adapters()))
def adapter(request: pytest.FixtureRequest, bench: LoopBench) -> str:
    bench.adapter = request.param
    bench.language_model = LanguageModel(name="scripted", supports_thinking=True)

    @bench.tools.tool()
    async def look_up(number: str, how: dict[str, list[int]] | None = None) -> str:
        """Look up an order."""
        if number == "none":
            raise ToolError("There is no such order.")
        return f"order {number} is on its way"

    return bench.adapter


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_run_with_thinking_parallel_calls_and_a_tools_error_comes_to_its_end(
    adapter: str, bench: LoopBench, stream: bool
) -> None:
    bench.script(*TWO_ROUNDS)

    end = await bench.run(bench.state(*ASKED, parameters=Parameters(stream=stream, thinking="low")))

    assert (end.outcome.reason, end.outcome.answer) == (EndReason.COMPLETED, "Ø-1 and 2 are on their way.")
    assert [message.text for message in end.state.messages if message.role == "tool"] == [
        "order Ø-1 is on its way",
        "There is no such order.",
        "order 2 is on its way",
    ]
    thought = [message.thinking for message in end.state.messages if message.role == "assistant"]
    assert thought[:2] == ["Two orders. I look both up.", "One is missing."]
    # What was not asked for in Chat Completions' stream can't be reported; all others report usage in each round.
    reported = [data["usage"] is not None for data in bench.data(StepKind.RESPONSE)]
    assert all(reported) or (stream and adapter in ("mistral", "groq"))


async def test_the_last_round_can_call_no_tool(adapter: str, bench: LoopBench) -> None:
    bench.script(Turn(thinking="Again.", tool_calls=(call("look_up", {"number": "1"}),)))

    end = await bench.run(bench.state(*ASKED, max_rounds=1))

    assert end.outcome.reason is EndReason.MAX_ROUNDS  # L4
    assert end.outcome.answer == bench.model.scenarios["scripted"].without_tools


async def test_a_prefix_never_changes_from_round_to_round(adapter: str, bench: LoopBench) -> None:
    bench.script(*TWO_ROUNDS)

    await bench.run(bench.state(*ASKED))

    first, second, third = (turns_of(body) for body in bench.bodies)
    assert second[: len(first)] == first and third[: len(second)] == second  # W8


async def test_a_run_goes_on_with_another_providers_history(adapter: str, bench: LoopBench) -> None:
    bench.script(*TWO_ROUNDS)
    histories = []
    for other in ("openai_compat", "openai_responses", "anthropic", "gemini"):
        bench.adapter = other
        histories.append((await bench.run(bench.state(*ASKED, max_rounds=2))).state)
        bench.requests.clear()
    bench.adapter = adapter

    for state in histories:
        end = await bench.run(replace(state, limits=replace(state.limits, max_rounds=9), rounds_used=0))

        assert end.outcome.error is None, end.outcome.detail
        assert end.outcome.reason is EndReason.COMPLETED


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, ErrorKind.AUTHENTICATION), (404, ErrorKind.NOT_FOUND), (429, ErrorKind.RATE_LIMIT), (503, None)],
)
async def test_an_error_of_the_service_ends_the_run_with_its_kind(
    adapter: str, bench: LoopBench, status: int, kind: ErrorKind | None
) -> None:
    bench.script(Turn(status=status, error="Not today."))

    end = await bench.run(bench.state(*ASKED))

    assert end.outcome.error is not None
    assert (end.outcome.error.status, end.outcome.error.message) == (status, "Not today.")
    assert end.outcome.error.kind in ((kind,) if kind else (ErrorKind.OVERLOADED, ErrorKind.SERVER))


async def test_an_error_in_the_stream_ends_the_run_and_runs_no_call(adapter: str, bench: LoopBench) -> None:
    bench.script(Turn(text="I look.", tool_calls=(call("look_up", {"number": "1"}),), error="Gone."))

    end = await bench.run(bench.state(*ASKED))

    assert end.outcome.error is not None and end.outcome.error.message == "Gone."
    assert bench.steps(StepKind.TOOL_CALL) == []


async def test_a_stream_that_breaks_off_ends_the_run_and_runs_no_call(adapter: str, bench: LoopBench) -> None:
    bench.script(Turn(text="I look it up for you.", cut_after_chars=9))

    end = await bench.run(bench.state(*ASKED))

    assert end.outcome.error is not None and end.outcome.error.kind is ErrorKind.STREAM_INCOMPLETE
    assert end.outcome.answer == "I look it"


def turns_of(body: dict[str, object]) -> list[str]:
    found = next(body[name] for name in ("messages", "input", "contents") if name in body)
    assert isinstance(found, list)
    return [json.dumps(item) for item in found]
