"""Which tools a run may call, and why not the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from llmcore.configuration import Configuration, LanguageModel, Provider, Skill
from llmcore.tools.base import Tool, ToolContext
from llmcore.tools.gate import Gate, LeftOutReason, decide_gate
from llmcore.tools.workspace.workspace import Workspace


def tool(name: str, group: str = "shop", **more: Any) -> Tool:
    return Tool(name=name, description=name, parameters={"type": "object"}, run=print, group=group, **more)


def skill(name: str, allowed_tools: tuple[str, ...] | None) -> Skill:
    return Skill(slug=name, name=name, body="x", sha256="", allowed_tools=allowed_tools)


REGISTRY = {
    each.name: each
    for each in (
        tool("refund", permission="shop.refund"),
        tool("look_up"),
        tool("list_orders"),
        tool("read_file", group="workspace"),
        tool("terminal", group="workspace", requires_approval=True),
    )
}
CONFIGURATION = Configuration(
    slug="c",
    name="C",
    provider=Provider(slug="p", name="P", adapter="openai_compat", base_url=""),
    model=LanguageModel(name="m"),
    tool_groups=("shop", "workspace"),
)


def gate(**changes: Any) -> Gate:
    given: dict[str, Any] = {
        "registry": REGISTRY,
        "requested": None,
        "configuration": CONFIGURATION,
        "skills": (),
        "disabled_tools": (),
        "disabled_groups": (),
        "permitted": lambda tool: True,
        "context": ToolContext(),
    }
    return decide_gate(**{**given, **changes})


def reasons(gate: Gate) -> dict[str, LeftOutReason]:
    return {item.name: item.reason for item in gate.left_out}


def test_all_tools_of_the_configurations_groups_are_offered_sorted_by_name() -> None:
    assert gate().names == ("list_orders", "look_up", "read_file", "refund", "terminal")  # L2


def test_tools_not_named_are_the_configurations_set() -> None:
    assert gate(configuration=replace(CONFIGURATION, tools=("refund",))).names == ("refund",)  # L2


def test_tools_named_for_the_run_replace_the_configurations_set() -> None:
    configuration = replace(CONFIGURATION, tools=("refund",))

    assert gate(configuration=configuration, requested=("look_up",)).names == ("look_up",)  # L2


def test_an_empty_list_is_no_tool_at_all() -> None:
    nothing = gate(requested=())

    assert nothing.names == ()  # L2, L3
    assert set(reasons(nothing).values()) == {LeftOutReason.NOT_REQUESTED}


def test_each_tool_left_out_has_its_reason() -> None:
    decided = gate(
        requested=("look_up", "list_orders", "read_file", "refund", "terminal", "teleport"),
        disabled_tools={"list_orders"},
        disabled_groups={"workspace"},
        permitted=lambda tool: not tool.permission,
    )

    assert decided.names == ("look_up",)
    assert reasons(decided) == {  # L2
        "teleport": LeftOutReason.UNKNOWN,
        "list_orders": LeftOutReason.DISABLED,
        "read_file": LeftOutReason.GROUP_DISABLED,
        "terminal": LeftOutReason.GROUP_DISABLED,
        "refund": LeftOutReason.NO_PERMISSION,
    }
    assert all(item.detail for item in decided.left_out)


def test_naming_a_tool_does_not_bring_in_its_group() -> None:
    decided = gate(configuration=replace(CONFIGURATION, tool_groups=("shop",)), requested=("read_file",))

    assert decided.names == ()  # L2
    assert reasons(decided)["read_file"] is LeftOutReason.NOT_IN_CONFIGURATION


@pytest.mark.parametrize(
    ("declared", "offered"),
    [
        ([None, None], {"list_orders", "look_up", "read_file", "refund", "terminal"}),
        ([("look_up",), None], {"look_up"}),
        ([("look_up",), ("refund",)], {"look_up", "refund"}),
        ([("Bash", "Read")], {"list_orders", "look_up", "read_file", "refund", "terminal"}),
        ([("Bash",), ("look_up",)], {"look_up"}),
        ([()], set()),
    ],
)
def test_injected_skills_restrict_to_the_union_of_what_they_allow(declared: list[Any], offered: set[str]) -> None:
    skills = [skill(f"s{n}", allowed) for n, allowed in enumerate(declared)]

    assert set(gate(skills=skills).names) == offered  # L2


def test_a_skill_never_brings_in_what_was_not_there() -> None:
    decided = gate(requested=("look_up",), skills=[skill("s", ("look_up", "refund"))])

    assert decided.names == ("look_up",)  # L2


def test_names_that_the_site_does_not_know_are_a_warning() -> None:
    decided = gate(skills=[skill("Returns", ("look_up", "Bash"))])

    assert decided.names == ("look_up",)
    assert decided.warnings == ("The skill 'Returns' allows tools that this site doesn't know: Bash.",)  # L2


def test_a_tool_that_needs_approval_is_offered() -> None:
    assert "terminal" in gate().names  # P2: its calls are asked for one by one


def test_a_model_without_tools_is_offered_none() -> None:
    configuration = replace(CONFIGURATION, model=LanguageModel(name="m", supports_tools=False))

    assert gate(configuration=configuration).names == ()


def test_the_gate_as_json_names_reasons_in_words() -> None:
    data = gate(requested=("look_up",)).to_json()

    assert data["offered"] == ["look_up"]
    assert data["left_out"][0] == {
        "name": "list_orders",
        "reason": "not_requested",
        "detail": "not among the tools chosen for this run",
    }


def test_a_tool_can_say_why_it_is_off_in_a_context() -> None:
    def needs_a_folder(context: ToolContext) -> str | None:
        return None if context.workspace else "the configuration names no workspace"

    registry = {"search": tool("search", off_because=needs_a_folder)}
    there = ToolContext(workspace=Workspace(name="shop", root="/srv/shop"))

    assert gate(registry=registry, context=there).names == ("search",)
    left_out = gate(registry=registry).left_out
    assert [(item.reason, item.detail) for item in left_out] == [
        (LeftOutReason.OFF_HERE, "the configuration names no workspace")
    ]


def test_a_tool_that_needs_approval_for_some_calls_is_offered() -> None:
    registry = {"write": tool("write", requires_approval=lambda arguments, context: "outside the whitelist")}

    assert gate(registry=registry).names == ("write",)
