"""Variables in prompts: where they are filled, where never, and what is said of those without a value."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmcore.errors import ConfigurationError
from llmcore.messages import Message
from llmcore.prompts.assembly import Augmentation, DropReason, PromptAssembly, Segment, Source, assemble
from llmcore.prompts.variables import LONGEST_FILLED, UnresolvedVariables, ValueSpan, fill
from tests.llmcore.test_assembly import configuration, skill, snippet

VALUES = {"shop": "Beanstalk", "order_id": "DJ-1"}


def run(prompt: str = "Hello", draft: bool = False, **changes: object) -> PromptAssembly:
    augmentation = {"variables": VALUES, "fill_conversation": True}
    of_the_run = ("system_override", "override_mode", "variables", "fill_conversation")
    own = {name: changes.pop(name) for name in of_the_run if name in changes}
    return assemble(
        configuration=configuration(**changes),
        conversation=[Message.of("user", prompt)],
        augmentation=Augmentation(**{**augmentation, **own}),  # type: ignore[arg-type]
        draft=draft,
    )


def texts(assembly: PromptAssembly) -> list[str]:
    return [message.text for message in assembly.messages]


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("At {{shop}}, {{ shop }} and {{\torder_id }}.", "At Beanstalk, Beanstalk and DJ-1."),
        (r"Write \{{shop}} for {{shop}}.", "Write {{shop}} for Beanstalk."),
        (r"Write \\{{shop}} to escape it.", r"Write \{{shop}} to escape it."),
        ("{{}} {{ 1st }} {{a.b}} {{#each}} {{a\nb}} {shop}", "{{}} {{ 1st }} {{a.b}} {{#each}} {{a\nb}} {shop}"),
        ("{{{shop}}}", "{Beanstalk}"),
        ('{"a": {"b": {{order_id}}}}', '{"a": {"b": DJ-1}}'),
    ],
)  # fmt: skip
def test_a_text_is_filled(text: str, filled: str) -> None:
    assert fill(text, VALUES).text == filled


def test_a_value_is_never_filled_again() -> None:
    assert fill("{{a}}{{b}}", {"a": "{{b}}", "b": r"\{{a}}"}).text == r"{{b}}\{{a}}"


def test_a_variable_without_a_value_stands_as_typed_and_is_named() -> None:
    filled = fill("{{ gone }} and {{shop}} and {{gone}}", VALUES)
    assert filled.text == "{{ gone }} and Beanstalk and {{gone}}"
    assert (filled.names, filled.missing) == (("gone", "shop"), ("gone",))


def test_an_empty_value_is_a_value() -> None:
    assert fill("[{{shop}}]", {"shop": ""}) == dataclasses.replace(
        fill("[]", {}), values=(ValueSpan("shop", 1, 1),), names=("shop",)
    )


def test_a_text_that_values_make_too_long_is_refused_before_it_is_made() -> None:
    with pytest.raises(ConfigurationError, match=r"longer than 10,000,000 characters.*“shop”"):
        fill("{{shop}}" * 100, {"shop": "x" * (LONGEST_FILLED // 50)})


@given(
    pieces=st.lists(
        st.one_of(st.text(), st.sampled_from(["{{a}}", "{{ b }}", r"\{{a}}", "{{", "}}"])).map(str), max_size=12
    ),
    values=st.dictionaries(st.sampled_from("ab"), st.text()),
)
def test_spans_say_where_the_values_are(pieces: list[str], values: dict[str, str]) -> None:
    filled = fill("".join(pieces), values)
    assert all(filled.text[span.start : span.end] == values[span.name] for span in filled.values)


def test_system_prompt_override_snippets_and_what_is_typed_are_filled() -> None:
    assembly = run(
        "Where is {{order_id}}?",
        system_prompt="You help {{shop}}.",
        system_override="Order {{order_id}}.",
        override_mode="append",
        snippets=(snippet("tone", "The tone of {{shop}}."),),
    )
    assert texts(assembly) == ["You help Beanstalk.\n\nOrder DJ-1.", "The tone of Beanstalk.", "Where is DJ-1?"]
    assert [(use.name, use.places) for use in assembly.variables] == [
        ("shop", ("Configuration prompt", "Tone")),
        ("order_id", ("Override", "User prompt")),
    ]


def test_segments_keep_their_source_and_say_what_was_filled_in() -> None:
    assembly = run(
        "{{shop}}: where is {{order_id}}?", skills=(skill("refunds"),), snippets=(snippet("tone", "At {{shop}}."),)
    )
    filled = [segment for segment in assembly.segments if segment.values]
    assert [(segment.source, segment.source_id) for segment in filled] == [
        (Source.SNIPPET, "tone"),
        (Source.USER, "message-1"),
    ]
    for segment in filled:
        text = assembly.messages[segment.message].parts[segment.part].text[segment.start : segment.end]
        assert [text[span.start : span.end] for span in segment.values] == [VALUES[s.name] for s in segment.values]
        assert Segment.from_json(segment.to_json()) == segment


def test_skills_are_never_filled() -> None:
    assembly = run(skills=(skill("refunds", "Refund {{shop}}."),))
    assert "Refund {{shop}}." in texts(assembly)[-1]
    assert assembly.unused_values == ("shop", "order_id")


def test_the_conversation_of_a_sites_own_call_is_not_filled() -> None:
    assert texts(run("What is {{shop}}?", fill_conversation=False))[-1] == "What is {{shop}}?"


def test_what_models_and_tools_said_is_never_filled() -> None:
    conversation = [
        Message.of("user", "At {{shop}}"),
        Message.of("assistant", "{{shop}}"),
        Message(role="tool", parts=Message.of("user", "{{shop}}").parts, tool_call_id="1"),
    ]
    assembly = assemble(
        configuration=configuration(),
        conversation=conversation,
        augmentation=Augmentation(variables=VALUES, fill_conversation=True),
    )
    assert texts(assembly)[1:] == ["At Beanstalk", "{{shop}}", "{{shop}}"]
    assert conversation[0].text == "At {{shop}}", "what was handed in is not changed"


def test_variables_without_a_value_are_refused_with_their_places() -> None:
    with pytest.raises(UnresolvedVariables) as refused:
        run("{{who}} at {{shop}}", snippets=(snippet("tone", "For {{who}} and {{what}}."),))
    assert str(refused.value) == (
        "The variable “who” has no value; it stands in: Tone, User prompt. "
        "The variable “what” has no value; it stands in: Tone."
    )


def test_a_draft_shows_them_as_typed() -> None:
    assembly = run("{{who}} at {{shop}}", draft=True)
    assert texts(assembly)[-1] == "{{who}} at Beanstalk"
    assert [(use.name, use.resolved) for use in assembly.variables] == [("who", False), ("shop", True)]


def test_what_is_left_out_needs_no_values() -> None:
    assembly = run(snippets=(snippet("tone", "For {{who}}.", enabled=False),), system_override="Short.")
    assert texts(assembly) == ["Short.", "Hello"]


def test_a_piece_that_its_values_leave_empty_is_left_out() -> None:
    assembly = run(snippets=(snippet("tone", "{{shop}}\n"),), variables={"shop": " "})
    assert texts(assembly) == ["You help staff.", "Hello"]
    assert [(d.source_id, d.reason, d.detail) for d in assembly.dropped] == [
        ("tone", DropReason.EMPTY, "With the values of its variables it is empty.")
    ]


def test_other_values_are_another_prompt() -> None:
    prompt = "Where is {{order_id}}?"
    assert run(prompt).fingerprint != run(prompt, variables={**VALUES, "order_id": "DJ-2"}).fingerprint
    assert run(prompt).fingerprint == run("Where is DJ-1?").fingerprint
