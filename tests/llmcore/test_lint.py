"""What is said of a request before it is sent: each notice by a draft that shows it, and what it points to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmcore.configuration import LanguageModel, Limits, Parameters, Provider, Route
from llmcore.context.budget import window_use
from llmcore.context.tokens import Share
from llmcore.findings import Severity
from llmcore.lint import Draft, Notice, look_over
from llmcore.lint.tools import alike
from llmcore.messages import Message
from llmcore.prompts.assembly import Augmentation, assemble
from llmcore.providers.base import ModelCall
from llmcore.tools.base import Tool
from llmcore.tools.gate import Gate, LeftOut, LeftOutReason
from tests.llmcore.test_assembly import NOTHING_ADDED, configuration, skill, snippet


def draft(
    prompt: str = "Was DJ-48213 charged twice?",
    *,
    tools: tuple[str, ...] = (),
    augmentation: Augmentation = NOTHING_ADDED,
    figures: dict[str, object] | None = None,
    user: int = 100,
    tooldef: int = 0,
    **changes: object,
) -> Draft:
    """A draft whose prompt is estimated at `user` tokens, and its tools at `tooldef`."""
    value = configuration(**changes)
    augmentation = replace(augmentation, fill_conversation=True)
    offered = tuple(
        Tool(name=name, description="", parameters={"type": "object"}, run=str, group="shop") for name in tools
    )
    made = Draft(
        configuration=value,
        assembly=assemble(
            configuration=value,
            conversation=[Message.of("user", prompt)],
            augmentation=augmentation,
            draft=True,
        ),
        call=ModelCall(
            provider=value.provider,
            model=value.model,
            parameters=value.parameters,
            tools=tuple(tool.spec for tool in offered),
        ),
        gate=Gate(offered=offered),
        use=window_use(
            {Share.USER: user, Share.TOOLDEF: tooldef},
            model=value.model,
            parameters=value.parameters,
            doubtful=user + tooldef,
            percent=10,
        ),
        override=augmentation.system_override,
        replaces=augmentation.override_mode == "replace",
    )
    return replace(made, **(figures or {}))  # type: ignore[arg-type]


def only(made: Draft) -> Notice:
    [notice] = look_over(made)
    return notice


def test_an_ordinary_request_has_nothing_to_tell() -> None:
    assert look_over(draft(skills=(skill("refunds"),), snippets=(snippet("tone"),), tools=("get_order",))) == []


def test_a_refused_parameter_points_to_the_configuration_that_sets_it() -> None:
    notice = only(draft(figures={"refused": {"top_p": "It is not supported."}}))
    assert (notice.title, notice.detail) == ("Top p is left out of the request", "It is not supported.")
    assert notice.fix and (notice.fix.kind, notice.fix.id) == ("configuration", 7)


def test_a_piece_that_is_chosen_twice_is_told() -> None:
    notice = only(draft(snippets=(snippet("tone"),), augmentation=Augmentation(snippets=(snippet("tone"),))))
    assert (notice.id, notice.severity) == ("chosen_twice", Severity.NOTE)
    assert notice.fix and notice.fix.field == "snippet_tone"


@pytest.mark.parametrize("kind", ["skill", "snippet"])
def test_two_pieces_with_the_same_text_are_told_with_what_they_cost(kind: str) -> None:
    make = skill if kind == "skill" else snippet
    pieces = (make("a", "Be kind to people."), make("b", "Be kind  to people.\n", id=4), make("c", "Be brief."))
    notice = only(draft(**{f"{kind}s": pieces}))
    assert notice.title == f"The {kind}s `a` and `b` say the same"
    assert notice.fix and (notice.fix.kind, notice.fix.id) == (kind, 4)
    assert notice.impact.startswith("+") and notice.severity is Severity.WARNING


def test_variables_without_values_come_first_and_values_without_variables_after() -> None:
    found = look_over(draft("{{order}}", augmentation=Augmentation(variables={"old": "x"})))
    assert [(notice.id, notice.severity) for notice in found] == [
        ("variable_without_value", Severity.ERROR),
        ("value_without_variable", Severity.WARNING),
    ]
    assert "It stands in: User prompt." in found[0].detail
    assert [notice.fix and notice.fix.field for notice in found] == ["variable-order", "variable-old"]


def test_what_only_reads_like_a_variable_is_told() -> None:
    made = draft(r"{{ order.id }} and \{{order}}", skills=(skill("refunds", "Refund {{order}}."),))
    assert {(notice.title, notice.detail) for notice in look_over(made)} == {
        ("`{{order}}` in Refunds is sent as it stands", "Skills are not filled."),
        (
            "`{{order.id}}` in User prompt is sent as it stands",
            "A variable is a name of letters, digits and underscores.",
        ),
    }


def test_braces_inside_a_value_are_nobodys_mistake() -> None:
    values = Augmentation(variables={"a": "{{ b.c }}", "d": "x"})
    assert look_over(draft("{{a}} {{d}} {{a}}", augmentation=values)) == []
    assert "`{{e.f}}`" in only(draft("{{a}} {{d}} {{ e.f }} {{a}}", augmentation=values)).title


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("get_order", "get_orders", True),
        ("get_order", "getOrder", True),
        ("get_order", "order_get", True),
        ("get_order", "get_ordez", True),
        ("read_file", "write_file", False),
        ("get_order", "get_customer", False),
        ("get_a", "get_b", False),
        ("order", "orders_all", False),
        ("abcdef", "abdcef", False),
    ],
)
def test_names_that_a_model_may_mix_up(first: str, second: str, expected: bool) -> None:
    assert alike(first, second) is alike(second, first) is expected
    found = [notice.id for notice in look_over(draft(tools=(first, second)))]
    assert found == (["tools_alike"] if expected else [])


def test_an_override_that_hides_the_system_prompt_is_told_and_one_that_adds_to_it_not() -> None:
    notice = only(draft(augmentation=Augmentation(system_override="Be brief.")))
    assert (notice.id, notice.impact) == ("override_hides_system_prompt", "−4 tokens")
    assert look_over(draft(augmentation=Augmentation(system_override="Be brief.", override_mode="append"))) == []


@pytest.mark.parametrize(
    ("mode", "title"),
    [
        ("replace", "The override is empty: it replaces the system prompt with nothing"),
        ("append", "The override is empty: it adds nothing"),
    ],
)
def test_an_empty_override_is_told(mode: str, title: str) -> None:  # A8
    made = draft(augmentation=Augmentation(system_override=" ", override_mode=mode))  # type: ignore[arg-type]
    assert only(made).title == title


@pytest.mark.parametrize(
    ("messages", "reserve", "expected"),
    [
        (1_100, 100, ("prompt_over_window", Severity.ERROR)),
        (800, 200, ("answer_over_window", Severity.ERROR)),
        (800, 100, None),
        # By a hair, which is less than the estimate may be wrong by.
        (850, 100, ("answer_over_window", Severity.ERROR)),
        (950, None, ("prompt_over_window", Severity.ERROR)),
        # Of an answer that nobody limited, a part of the window is expected.
        (700, None, ("answer_over_window", Severity.WARNING)),
        (600, None, None),
    ],
)
def test_a_request_that_does_not_fit_the_window_is_told(
    messages: int, reserve: int | None, expected: tuple[str, Severity] | None
) -> None:
    made = draft(
        model=LanguageModel(name="demo", context_window=1_000), parameters=Parameters(max_tokens=reserve), user=messages
    )
    assert [(notice.id, notice.severity) for notice in look_over(made)] == ([expected] if expected else [])


def test_a_request_whose_oldest_turns_will_be_summarized_is_told() -> None:
    turns = [Message.of("assistant", f"Answer {n}.") for n in range(4)]
    limits = Limits(compact_at_percent=80, keep_turns=2)
    made = draft(model=LanguageModel(name="demo", context_window=1_000), limits=limits, user=600)
    assembly = replace(made.assembly, messages=(*made.assembly.messages, *turns))
    notices = [notice for notice in look_over(replace(made, assembly=assembly)) if notice.id == "begins_with_a_summary"]
    assert "2 messages give way" in notices[0].detail
    assert all(notice.id != "begins_with_a_summary" for notice in look_over(made))


def test_tool_definitions_that_are_larger_than_the_prompt_are_told() -> None:
    notice = only(draft(tools=("get_order",), tooldef=600))
    assert (notice.id, notice.impact) == ("definitions_over_prompt", "600 tokens a round")
    assert look_over(draft(tools=("get_order",), tooldef=600, user=700)) == []
    assert look_over(draft(tools=("get_order",), tooldef=400)) == []


def test_tools_that_were_asked_for_and_are_not_offered_are_told_by_reason() -> None:
    left_out = (
        LeftOut(name="a", reason=LeftOutReason.NO_PERMISSION, detail="you lack it"),
        LeftOut(name="b", reason=LeftOutReason.NO_PERMISSION, detail="you lack it"),
        LeftOut(name="c", reason=LeftOutReason.NOT_IN_CONFIGURATION, detail="no such group"),
        LeftOut(name="d", reason=LeftOutReason.NOT_REQUESTED, detail="not chosen"),
    )
    gate = {"gate": Gate(left_out=left_out)}
    assert [(n.title, n.detail) for n in look_over(draft(figures=gate))] == [
        ("2 tools not offered: a, b", "You lack it.")
    ]
    chosen = look_over(draft(figures={**gate, "chose_tools": True}))
    assert [notice.title for notice in chosen] == ["2 tools not offered: a, b", "1 tool not offered: c"]


def test_a_check_that_fails_costs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    def broken(made: Draft) -> list[Notice]:
        raise ValueError

    assert look_over(draft(), [broken]) == []
    assert "the check broken failed" in caplog.text


def test_fallback_models_are_named_and_one_that_is_too_small_is_told() -> None:
    provider = Provider(slug="other", name="Other", adapter="openai_compat", base_url="https://llm.example.com/v1")
    small = Route(provider=provider, model=LanguageModel(name="small", context_window=50))
    large = Route(provider=provider, model=LanguageModel(name="large", label="Large"))

    warning, note = look_over(draft(fallbacks=(large, small)))

    assert (warning.severity, note.severity) == (Severity.WARNING, Severity.NOTE)
    assert "fallback model small" in warning.title and "50 tokens over its 50" in warning.detail
    assert note.title == "Fallback: Large (Other), then small (Other)"
