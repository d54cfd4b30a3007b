"""A call that is required in the first round: asked for over each wire, and a server that doesn't care is told."""

from __future__ import annotations

import json

import pytest

from llmcore.configuration import LanguageModel, Parameters
from llmcore.findings import RunView, find
from llmcore.providers.registry import adapters
from llmcore.providers.scripted import Turn
from llmcore.runs.outcome import EndReason
from llmcore.trace import StepKind
from tests.llmcore.conftest import LoopBench, call

REQUIRED = Parameters(tool_choice="required")


@pytest.fixture(autouse=True)
def look(bench: LoopBench) -> None:
    @bench.tools.tool()
    async def look() -> str:
        """Look."""
        return "seen"


def ids_of_findings(bench: LoopBench) -> set[str]:
    return {finding.id for finding in find(RunView(steps=bench.trace.steps, contents=bench.trace.contents))}


@pytest.mark.parametrize("adapter", sorted(adapters()))
async def test_a_call_is_required_in_the_first_round_only(bench: LoopBench, adapter: str) -> None:
    bench.adapter = adapter
    bench.script(Turn(tool_calls=(call("look"),)), Turn(text="Seen."))

    end = await bench.run(bench.state(parameters=REQUIRED))

    assert (end.outcome.reason, end.outcome.answer) == (EndReason.COMPLETED, "Seen.")
    first, second = (json.dumps([body.get("tool_choice"), body.get("toolConfig")]) for body in bench.bodies)
    forced = "required" in first or "any" in first.lower()
    # Ollama has no field for it, which is said before the run.
    assert forced is (adapter != "ollama")
    assert second == "[null, null]"
    assert "tool_choice_ignored" not in ids_of_findings(bench)


async def test_a_server_that_ignores_it_is_told(bench: LoopBench) -> None:
    bench.script(Turn(text="I know it anyway."))

    end = await bench.run(bench.state(parameters=REQUIRED))

    assert (end.outcome.reason, end.outcome.answer) == (EndReason.COMPLETED, "I know it anyway.")
    assert bench.bodies[0]["tool_choice"] == "required"
    assert bench.data(StepKind.RESPONSE)[0]["choice_ignored"] is True
    assert "tool_choice_ignored" in ids_of_findings(bench)


@pytest.mark.parametrize("turn", [Turn(text="Cut", finish_reason="length"), Turn(status=400, error="Oops.")])
async def test_an_answer_that_came_to_no_end_ignored_nothing(bench: LoopBench, turn: Turn) -> None:
    bench.script(turn)

    await bench.run(bench.state(parameters=REQUIRED))

    assert "choice_ignored" not in bench.data(StepKind.RESPONSE)[0]
    assert "tool_choice_ignored" not in ids_of_findings(bench)


async def test_without_tools_nothing_is_required(bench: LoopBench) -> None:
    bench.script(Turn(text="Hello."))

    await bench.run(bench.state(offered=(), parameters=REQUIRED))

    assert "tool_choice" not in bench.bodies[0]


async def test_a_model_that_chooses_in_json_gets_no_other_choice(bench: LoopBench) -> None:
    bench.language_model = LanguageModel(name="scripted", tools_as_json=True, supports_tool_choice=False)
    bench.script(Turn(text='{"tool": "look", "arguments": {}}'), Turn(text='{"answer": "Seen."}'))

    end = await bench.run(bench.state(parameters=REQUIRED))

    first, second = (body["response_format"]["json_schema"]["schema"] for body in bench.bodies)
    assert list(first["properties"]) == ["tool", "arguments"] and len(second["oneOf"]) == 2
    assert end.outcome.answer == "Seen."


async def test_a_state_keeps_what_is_required(bench: LoopBench) -> None:
    state = bench.state(parameters=REQUIRED)

    assert type(state).from_json(json.loads(json.dumps(state.to_json()))) == state
