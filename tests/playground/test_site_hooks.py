"""Hooks that a site names in its settings judge the calls of every run that its workers drive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from llmcore.errors import ConfigurationError
from llmcore.messages import ToolCall
from llmcore.providers.scripted.scenario import Turn
from llmcore.runs.hooks import Verdict, deny, halt
from llmcore.site_hooks import site_hooks
from llmcore.tools.base import Tool, ToolContext
from llmcore.tools.results import ToolResult
from playground.models import Run
from playground.services.start_run import write_run
from tests.factories import UserFactory
from tests.playground.driven import call, script, site_tool

pytestmark = pytest.mark.django_db(transaction=True)

HERE = "tests.playground.test_site_hooks"
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def no_sevens(asked: ToolCall, tool: Tool, context: ToolContext) -> Verdict | None:
    # A query, as a plain function may make it.
    who = User.objects.get(pk=context.user.pk).username
    return deny(f"No sevens for {who}.") if asked.arguments == {"n": 7} else None


async def stop_at_nine(asked: ToolCall, tool: Tool, context: ToolContext) -> Verdict | None:
    return halt("Nine is too much.") if asked.arguments == {"n": 9} else None


def no_secrets(asked: ToolCall, tool: Tool, context: ToolContext, result: ToolResult) -> Verdict | None:
    return deny("It is secret.") if "secret" in result.text else None


def broken(asked: ToolCall, tool: Tool, context: ToolContext) -> None:
    raise RuntimeError("broken")


@pytest.fixture
def ran() -> Iterator[Counter[int]]:
    counted: Counter[int] = Counter()

    def count(n: int) -> str:
        counted[n] += 1
        return "secret" if n == 8 else f"counted {n}"

    with site_tool(Tool(name="count", description="Count.", parameters=NUMBER, run=count, group="test")):
        yield counted


def driven(*numbers: int) -> tuple[Run, list[str]]:
    """A run whose model counts `numbers`, one in a round, and what it was told of each."""
    turns = [Turn(tool_calls=(call("count", n=n),)) for n in numbers]
    with script(*turns, Turn(text="Done."), tool_groups=["test"]) as model:
        run = model.drive(write_run(request=model.request(), by=UserFactory(username="ada", is_superuser=True)))
        told = [m["content"] for m in model.model.requests[-1].json["messages"] if m["role"] == "tool"]
    return run, told


def test_they_deny_withhold_and_halt(settings: Settings, ran: Counter[int]) -> None:  # L16
    settings.LLM_TOOL_HOOKS = {
        "pre_tool_use": [f"{HERE}.no_sevens", f"{HERE}.stop_at_nine"],
        "post_tool_use": [f"{HERE}.no_secrets"],
    }
    run, told = driven(1, 7, 8, 9, 1)

    assert run.reason == "halted" and "Nine is too much." in run.detail
    assert ran == {1: 1, 8: 1} and told[0] == "counted 1"
    assert "No sevens for ada." in told[1] and "withheld. It is secret." in told[2]


def test_one_that_fails_lets_nothing_through(settings: Settings, ran: Counter[int]) -> None:  # L16
    settings.LLM_TOOL_HOOKS = {"pre_tool_use": [f"{HERE}.broken"]}
    run, _ = driven(1)
    assert run.reason == "internal_error" and not ran


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ({"before": []}, "unknown keys: before"),
        ({"pre_tool_use": ["shop.nothing.at_all"]}, "can't be imported"),
        ({"pre_tool_use": [f"{HERE}.missing"]}, "can't be imported"),
        ({"post_tool_use": [f"{HERE}.HERE"]}, "is no function"),
    ],
)
def test_a_mistake_in_the_setting_is_named(settings: Settings, setting: dict[str, Any], why: str) -> None:
    settings.LLM_TOOL_HOOKS = setting
    with pytest.raises(ConfigurationError, match=why):
        site_hooks()
