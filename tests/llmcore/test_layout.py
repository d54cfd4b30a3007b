"""Each byte of a request's body belongs to a source, in every wire format, and two bodies part at one place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmcore.configuration import Configuration, LanguageModel, Provider, Snippet
from llmcore.messages import Message, Part, ToolCall, ToolSpec
from llmcore.prompts.assembly import Augmentation, PromptAssembly, assemble
from llmcore.prompts.layout import (
    Layout,
    common_bytes,
    excerpt,
    first_difference,
    lay_out,
    lead,
    reusable,
    shared_prefix,
)
from llmcore.prompts.provenance import Source
from llmcore.providers.base import ModelCall
from llmcore.providers.registry import adapters
from tests.llmcore.test_assembly import skill

WIRES = [*adapters()]
TOOLS = tuple(ToolSpec(name=name, description=f"Gives {name}.", parameters={"type": "object"}) for name in ("a", "b"))


def call_of(wire: str, **changes: object) -> ModelCall:
    provider = Provider(slug="p", name="P", adapter=wire, base_url="https://llm.example.com/v1", api_version="1")
    return ModelCall(**{"provider": provider, "model": LanguageModel(name="m-1"), "tools": TOOLS, **changes})  # type: ignore[arg-type]


def prompt(call: ModelCall, *, system: str = "You help the “Käufer”.", user: str = "Where is it?") -> PromptAssembly:
    configuration = Configuration(
        slug="support",
        name="Support",
        provider=call.provider,
        model=call.model,
        system_prompt=system,
        snippets=(Snippet(slug="tone", name="Tone", body='Be "kind".\n'),),
        skills=(skill("refunds"),),
    )
    return assemble(configuration=configuration, conversation=[Message.of("user", user)], augmentation=Augmentation())


def laid_out(call: ModelCall, assembly: PromptAssembly, *more: Message) -> Layout:
    return lay_out(call, [*assembly.messages, *more], assembly.segments)


@pytest.mark.parametrize("wire", WIRES)
def test_the_spans_cover_the_body_and_name_the_sources(wire: str) -> None:
    call = call_of(wire)
    layout = laid_out(call, prompt(call))

    assert b"".join(layout.body[span.start : span.end] for span in layout.spans) == layout.body
    sources = [span.source for span in layout.prompt]
    assert sources == [Source.TOOLDEF, Source.CONFIG, Source.SNIPPET, Source.SKILL, Source.SKILL, Source.USER]
    by_source = {span.source: layout.body[span.start : span.end].decode() for span in layout.spans}
    assert "Käufer" in by_source[Source.CONFIG] and r"Be \"kind\"" in by_source[Source.SNIPPET]
    assert "Where is it?" in by_source[Source.USER] and "Gives a." in by_source[Source.TOOLDEF]
    assert "Where is it?" not in by_source[Source.SKILL]


@pytest.mark.parametrize("wire", WIRES)
def test_the_next_round_begins_with_the_whole_one_before(wire: str) -> None:
    call = call_of(wire)
    assembly = prompt(call)
    asked = Message(role="assistant", tool_calls=(ToolCall(id="call_1", name="a", arguments={"z": 1, "b": 2}),))
    told = Message(role="tool", parts=(Part(text="found"),), tool_call_id="call_1", name="a")

    shared = shared_prefix(laid_out(call, assembly), after := laid_out(call, assembly, asked, told))

    assert shared.whole and shared.next is not None and shared.next.source in (Source.ASSISTANT, Source.TOOL)
    assert shared.size == sum(len(after.content(span)) for span in after.prompt[: shared.spans]) + shared.inside


@pytest.mark.parametrize("wire", WIRES)
def test_prompts_part_at_the_source_that_changed(wire: str) -> None:
    call = call_of(wire)
    before, after = laid_out(call, prompt(call)), laid_out(call, prompt(call, user="Where was it?"))

    shared = shared_prefix(before, after)

    assert shared.next is not None and shared.next.source is Source.USER and not shared.whole
    assert shared.before.startswith("is it?") and shared.after.startswith("was it?")
    found = first_difference(before, after)
    assert found is not None and found.span_after is not None and found.span_after.source is Source.USER
    assert found.before.startswith("is it?") and found.after.startswith("was it?")
    assert first_difference(before, before) is None


@pytest.mark.parametrize("wire", WIRES)
def test_other_tools_change_all_that_follows(wire: str) -> None:
    call = call_of(wire)
    assembly = prompt(call)

    shared = shared_prefix(laid_out(call, assembly), laid_out(replace(call, tools=TOOLS[:1]), assembly))

    assert shared.spans == 0 and shared.next is not None and shared.next.source is Source.TOOLDEF


def test_tools_that_are_told_as_text_are_definitions_too() -> None:
    call = call_of("openai_compat", model=LanguageModel(name="m-1", tools_as_json=True))
    layout = laid_out(call, prompt(call))

    assert b"".join(layout.body[span.start : span.end] for span in layout.spans) == layout.body
    (definitions,) = (span for span in layout.spans if span.source is Source.TOOLDEF)
    assert b"Gives a." in layout.content(definitions) and layout.prompt[0] is definitions


def test_without_tools_nothing_is_called_a_definition() -> None:
    call = call_of("openai_compat", tools=())

    assert Source.TOOLDEF not in {span.source for span in laid_out(call, prompt(call)).spans}


def test_boundaries_stand_at_the_ends_of_what_can_be_used_again() -> None:
    call = call_of("anthropic")
    layout = laid_out(call, prompt(call))

    assert [span.label for span in layout.spans if span.boundary] == ["Tone", "Refunds"]


def test_common_bytes_are_counted_to_the_byte() -> None:
    assert [common_bytes(a, b) for a, b in ((b"", b"a"), (b"abc", b"abd"), (b"abc", b"abc"), (b"ab", b"abc"))] == [
        0,
        2,
        3,
        2,
    ]


def test_an_excerpt_begins_and_ends_between_characters() -> None:
    body = "aä" * 100

    assert excerpt(body.encode(), 2).startswith("ä") and "�" not in excerpt(body.encode(), 2)


def test_what_both_have_before_a_difference_ends_where_the_excerpt_begins() -> None:
    body = ("ä" * 50 + "b").encode()

    assert lead(body, 3) + excerpt(body, 3) == body.decode()[:46]
    assert lead(body, 0) == "" and len(lead(body, 100)) == 20


@pytest.mark.parametrize("wire", WIRES)
def test_a_cache_gives_back_what_its_marks_say_or_all(wire: str) -> None:
    call = call_of(wire)
    before, after = laid_out(call, prompt(call)), laid_out(call, prompt(call, user="Where was it?"))
    shared = shared_prefix(before, after)
    to_skills = sum(len(before.content(span)) for span in before.prompt[:5])

    assert shared.lead.endswith("Where ") and shared.size > to_skills
    assert reusable(before, shared) == (to_skills if wire == "anthropic" else shared.size)
    other = shared_prefix(before, laid_out(call, prompt(call, system="Another one.")))
    assert reusable(before, other) == (0 if wire == "anthropic" else other.size)
