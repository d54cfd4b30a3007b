"""Tools are registered by a decorator and found in each installed app."""

from __future__ import annotations

from typing import Any

import pytest

from llmcore.errors import ConfigurationError
from llmcore.tools.base import Effect, Tool, ToolContext
from llmcore.tools.registry import ToolRegistry, all_tools


@pytest.fixture
def registry() -> ToolRegistry:
    return ToolRegistry()


def test_a_marked_function_is_a_tool_and_stays_a_function(registry: ToolRegistry) -> None:
    @registry.tool(group="shop", effect=Effect.IDEMPOTENT_WRITE, timeout_s=5, permission="shop.view_order")
    def look_up(number: str, *, context: ToolContext) -> str:
        """Look up an order."""
        return f"order {number}"

    tool = registry.all_tools()["look_up"]
    assert look_up("1", context=ToolContext()) == "order 1"  # K1
    assert (tool.name, tool.description, tool.group) == ("look_up", "Look up an order.", "shop")
    assert (tool.effect, tool.timeout_s, tool.permission) == (Effect.IDEMPOTENT_WRITE, 5, "shop.view_order")
    assert tool.context_parameter == "context"
    assert list(tool.parameters["properties"]) == ["number"]


def test_a_class_with_callable_instances_is_a_tool(registry: ToolRegistry) -> None:
    @registry.tool()
    class LookUpOrder:
        """Look up an order."""

        async def __call__(self, number: int) -> str:
            """…

            Args:
                number: The order's number.
            """
            return f"order {number}"

    tool = registry.all_tools()["look_up_order"]  # K1
    assert tool.description == "Look up an order."
    assert tool.parameters["properties"]["number"] == {"description": "The order's number.", "type": "integer"}


def test_a_schema_that_is_given_is_used_as_it_is(registry: ToolRegistry) -> None:
    schema = {"type": "object", "properties": {"day": {"type": "string"}}}

    @registry.tool(name="other", description="Other words.", parameters=schema)
    def look_up(**arguments: Any) -> Any:
        return arguments

    tool = registry.all_tools()["other"]
    assert (tool.parameters, tool.description) == (schema, "Other words.")
    assert tool.run(day="2024-01-01") == {"day": "2024-01-01"}


def test_two_tools_of_one_name_fail_with_both_places_named(registry: ToolRegistry) -> None:
    def look_up() -> None:
        """Look."""

    def look_again() -> None:
        """Look."""

    registry.tool(name="look")(look_up)

    with pytest.raises(ConfigurationError, match=r"'look'.*look_up.*look_again"):  # K1
        registry.tool(name="look")(look_again)


@pytest.mark.parametrize("name", ["", "look up", "läuft", "x" * 65, "a.b"])
def test_a_name_that_some_wire_refuses_is_refused(registry: ToolRegistry, name: str) -> None:
    tool = Tool(name=name, description="x", parameters={"type": "object"}, run=print)

    with pytest.raises(ConfigurationError, match="is no tool name"):
        registry.register(tool, place="here")


def test_a_tool_without_words_for_the_model_is_refused(registry: ToolRegistry) -> None:
    def look_up() -> None: ...

    with pytest.raises(ConfigurationError, match="needs a docstring"):
        registry.tool()(look_up)


def test_a_tool_without_a_deadline_is_refused(registry: ToolRegistry) -> None:
    tool = Tool(name="x", description="x", parameters={"type": "object"}, run=print, timeout_s=0)

    with pytest.raises(ConfigurationError, match="timeout above 0"):
        registry.register(tool, place="here")


def test_the_tools_can_not_be_changed_from_outside(registry: ToolRegistry) -> None:
    with pytest.raises(TypeError):
        registry.all_tools()["x"] = None  # type: ignore[index]


def test_each_installed_apps_tools_are_found() -> None:
    modules = {tool.run.__module__.rsplit(".", 1)[0] for tool in all_tools().values()}

    assert "demo.llm_tools" in modules  # K1
