"""Tools for models without tool calls of their own: asked for as JSON, and read back as calls."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from llmcore.configuration import LanguageModel, Parameters
from llmcore.messages import CallProblem, FinishReason, ToolSpec
from llmcore.providers.answer_text import AnswerText
from llmcore.providers.json_tools import choice_schema
from llmcore.providers.registry import adapters
from llmcore.providers.scripted import Turn
from llmcore.runs.outcome import EndReason
from llmcore.trace import StepKind
from tests.llmcore.conftest import LoopBench
from tests.llmcore.voices import CITY, CLOCK, VOICES, call_to

CHAT = VOICES[0]
CALLING = json.dumps({"tool": "look_up", "arguments": {"number": "7"}})


@pytest.fixture(autouse=True)
def looked_up(bench: LoopBench) -> list[str]:
    numbers: list[str] = []
    bench.language_model = LanguageModel(name="scripted", tools_as_json=True)

    @bench.tools.tool()
    async def look_up(number: str) -> str:
        """Look up an order."""
        numbers.append(number)
        return f"order {number} is on its way"

    return numbers


@pytest.mark.parametrize("adapter", sorted(adapters()))
async def test_a_run_calls_tools_and_answers(adapter: str, bench: LoopBench, looked_up: list[str]) -> None:
    bench.adapter = adapter
    bench.script(
        Turn(text=CALLING), Turn(text=CALLING.replace("7", "8")), Turn(text='{"answer": "Both are \\u00fcber."}')
    )

    end = await bench.run()

    assert (end.outcome.reason, end.outcome.answer) == (EndReason.COMPLETED, "Both are über.")
    assert looked_up == ["7", "8"]
    assert [step.data["name"] for step in bench.steps(StepKind.TOOL_CALL)] == ["look_up", "look_up"]
    assert [data["tool_names"] for data in bench.data(StepKind.REQUEST)] == [["look_up"]] * 3
    assert not any("tools" in body or "toolConfig" in body for body in bench.bodies)
    assert "order 8 is on its way" in json.dumps(bench.bodies[-1])


async def test_a_request_holds_the_schema_and_three_examples(bench: LoopBench) -> None:
    bench.script(Turn(text='{"answer": "Hi"}'))

    await bench.run()

    body = bench.bodies[0]
    assert body["messages"][0]["role"] == "system" and body["messages"][0]["content"].count("\n{") == 4
    schema = body["response_format"]["json_schema"]["schema"]
    for value, fits in ((json.loads(CALLING), True), ({"answer": "x"}, True), ({"tool": "no", "arguments": {}}, False)):
        assert Draft202012Validator(schema).is_valid(value) is fits


@pytest.mark.parametrize(
    ("adapter", "holds", "asked"),
    [
        ("openai_compat", True, "json_schema"),
        ("openai_compat", False, None),
        ("deepseek", True, "json_object"),
        # Its root has to be an object.
        ("openai_chat", True, None),
    ],
)
async def test_only_who_can_be_held_to_a_choice_is(
    bench: LoopBench, adapter: str, holds: bool, asked: str | None
) -> None:
    bench.adapter = adapter
    bench.language_model = LanguageModel(name="scripted", tools_as_json=True, supports_structured_output=holds)
    bench.script(Turn(text=CALLING), Turn(text='{"answer": "It is on its way."}'))

    end = await bench.run()

    assert end.outcome.answer == "It is on its way."
    assert [body.get("response_format", {}).get("type") for body in bench.bodies] == [asked] * 2


def test_schemas_that_refer_to_themselves_keep_their_meaning_in_a_choice() -> None:
    tree = {
        "type": "object",
        "properties": {"item": {"$ref": "#/$defs/Item"}, "next": {"$ref": "#"}},
        "required": ["item"],
        "additionalProperties": False,
        "$defs": {"Item": {"type": "integer"}},
    }
    tool = ToolSpec(name="plant", description="Plant.", parameters=tree)
    valid = Draft202012Validator(choice_schema(call_to(CHAT, "http://127.0.0.1", tools=(tool, CLOCK)))).is_valid

    assert valid({"tool": "plant", "arguments": {"item": 1, "next": {"item": 2}}})
    assert not valid({"tool": "plant", "arguments": {"item": 1, "next": {"item": "two"}}})
    assert valid({"tool": "get_time", "arguments": {}}) and valid({"answer": "x"})


async def test_the_last_round_leaves_the_answer_alone_behind_the_same_beginning(
    bench: LoopBench, looked_up: list[str]
) -> None:
    bench.language_model = replace(bench.language_model, supports_tool_choice=False)
    bench.script(Turn(text=CALLING), Turn(text='{"answer": "So far."}'))

    end = await bench.run(bench.state(max_rounds=1))

    assert (end.outcome.reason, end.outcome.answer, looked_up) == (EndReason.MAX_ROUNDS, "So far.", ["7"])
    first, last = bench.bodies
    assert last["messages"][: len(first["messages"])] == first["messages"]  # L4
    valid = Draft202012Validator(last["response_format"]["json_schema"]["schema"]).is_valid
    assert valid({"answer": "x"}) and not valid(json.loads(CALLING))


async def test_who_can_not_be_held_to_an_answer_is_told_nothing_of_tools_in_the_last_round(bench: LoopBench) -> None:
    bench.language_model = LanguageModel(name="scripted", tools_as_json=True, supports_structured_output=False)
    bench.script(Turn(text=CALLING), Turn(text="Plain words."))

    end = await bench.run(bench.state(max_rounds=1))

    assert (end.outcome.reason, end.outcome.answer) == (EndReason.MAX_ROUNDS, "Plain words.")
    assert "response_format" not in bench.bodies[-1]
    assert [message["role"] for message in bench.bodies[-1]["messages"]] == ["user", "assistant", "user"]


async def test_a_choice_may_stand_in_a_fence(bench: LoopBench, looked_up: list[str]) -> None:
    bench.script(Turn(text=f"```json\n{CALLING}\n```"), Turn(text='```\n{"answer": "It is on its way."}\n```\n'))

    end = await bench.run()

    assert (end.outcome.answer, looked_up) == ("It is on its way.", ["7"])


@pytest.mark.parametrize("said", ["Just words.", '["a"]', "```json\n{}\n```", '{"mood": "good"}', '{"answer": '])
async def test_what_is_no_choice_is_the_answer(bench: LoopBench, said: str) -> None:
    bench.script(Turn(text=said))

    end = await bench.run()

    assert (end.outcome.reason, end.outcome.answer) == (EndReason.COMPLETED, said)


@pytest.mark.parametrize("stream", [True, False])
async def test_without_tools_an_answer_that_looks_like_a_choice_stays_as_it_is(bench: LoopBench, stream: bool) -> None:
    for said in ('{"answer": "42", "why": "six times seven"}', '{"tool": "hammer", "price": 3}'):
        bench.script(Turn(text=said))
        end = await bench.run(bench.state(offered=(), parameters=Parameters(stream=stream)))
        assert (end.outcome.reason, end.outcome.answer) == (EndReason.COMPLETED, said)


async def test_a_tool_that_is_not_there_and_broken_arguments_go_back_to_the_model(bench: LoopBench) -> None:
    bench.script(
        Turn(text='{"tool": "pay", "arguments": {}}'),
        Turn(text='{"tool": "look_up", "arguments": "seven"}'),
        Turn(text='{"answer": "I give up."}'),
    )

    end = await bench.run()

    problems = [step.data["problem"] for step in bench.steps(StepKind.TOOL_CALL)]
    assert problems == [CallProblem.NOT_OFFERED, CallProblem.UNDECODABLE]
    assert end.outcome.answer == "I give up."


async def test_a_choice_that_is_cut_off_is_not_run(bench: LoopBench, looked_up: list[str]) -> None:
    bench.script(Turn(text=CALLING, finish_reason="length"))

    end = await bench.run()

    assert (end.outcome.reason, looked_up) == (EndReason.TRUNCATED, [])
    assert end.state.finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize(("choice", "answers"), [("auto", True), ("required", False), ("get_time", False)])
def test_a_required_call_leaves_no_room_for_an_answer(choice: str, answers: bool) -> None:
    schema = choice_schema(call_to(CHAT, "http://127.0.0.1", tools=(CITY, CLOCK), tool_choice=choice))
    valid = Draft202012Validator(schema).is_valid

    assert valid({"answer": "x"}) is answers
    assert valid({"tool": "get_time", "arguments": {}})
    assert valid({"tool": "get_weather", "arguments": {"city": "Oslo"}}) is (choice != "get_time")


@given(text=st.text(max_size=30), sizes=st.lists(st.integers(1, 7), max_size=30), escaped=st.booleans())
@settings(max_examples=150)
def test_an_answers_text_is_read_however_it_is_cut(text: str, sizes: list[int], escaped: bool) -> None:
    whole = json.dumps({"answer": text}, ensure_ascii=escaped)
    reader, read, start = AnswerText(), "", 0
    for size in [*sizes, len(whole)]:
        piece: Any = reader.feed(whole[start : start + size])
        read += piece
        start += size

    assert read == text


@pytest.mark.parametrize("text", [CALLING, "words", '{"answers": "x"}', "[]", '{"answer": 5}'])
def test_other_json_is_no_answers_text(text: str) -> None:
    reader = AnswerText()

    assert [reader.feed(piece) for piece in text][-1] is None
