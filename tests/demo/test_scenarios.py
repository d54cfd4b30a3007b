"""The scenarios: what the scripted models ask of the shop fits its tools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from demo.management.commands.demo_model import SCENARIOS
from llmcore.providers.scripted import Scenario, load_scenarios
from llmcore.tools.registry import all_tools

# A model's mistake that its next round corrects.
MEANT_MISTAKES = [("demo-report", "sales_summary", "article")]


def calls() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for scenario in load_scenarios(SCENARIOS).values():
        for turn in scenario.turns:
            for call in turn.tool_calls:
                yield scenario.name, str(call["name"]), call["arguments"]


def test_every_call_names_a_tool_of_the_shop() -> None:
    assert {name for _, name, _ in calls()} <= set(all_tools())
    assert len({name for _, name, _ in calls()}) >= 8


def test_arguments_fit_the_tools_but_for_meant_mistakes() -> None:
    mistakes = []
    for scenario, name, arguments in calls():
        for error in Draft202012Validator(all_tools()[name].parameters).iter_errors(arguments):
            mistakes.append((scenario, name, error.instance))

    assert mistakes == MEANT_MISTAKES


def test_scenarios_that_call_tools_have_something_to_say_without_them(scenarios: dict[str, Scenario]) -> None:
    usual = Scenario.__dataclass_fields__["without_tools"].default
    for scenario in scenarios.values():
        if any(turn.tool_calls for turn in scenario.turns):
            assert scenario.only_offered and scenario.without_tools != usual, scenario.name


@pytest.mark.parametrize(("name", "least", "most"), [("demo-support", 7, 11), ("demo-slow", 17, 25)])
def test_main_scenarios_take_the_time_of_a_real_model(
    scenarios: dict[str, Scenario], name: str, least: float, most: float
) -> None:
    seconds = 0.0
    for turn in scenarios[name].turns:
        arguments = sum(len(str(call["arguments"])) for call in turn.tool_calls)
        pieces = (len(turn.thinking) + len(turn.text) + arguments) / turn.chunk_chars
        seconds += turn.delay_s + pieces * turn.chunk_delay_s

    assert least < seconds < most
