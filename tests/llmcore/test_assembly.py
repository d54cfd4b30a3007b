"""What a prompt is assembled from, in which order, and what is left out."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmcore.configuration import (
    Configuration,
    LanguageModel,
    Limits,
    Provider,
    Skill,
    Snippet,
    sha256_of_text,
)
from llmcore.messages import Message, Part, ToolCall
from llmcore.prompts.assembly import Augmentation, Dropped, DropReason, PromptAssembly, Segment, Source, assemble
from llmcore.prompts.fences import GUARD

ASK = Message.of("user", "Was DJ-48213 charged twice?")


def skill(slug: str, body: str | None = None, **changes: object) -> Skill:
    body = f"How to do {slug}." if body is None else body
    values = {"slug": slug, "name": slug.replace("-", " ").title(), "body": body, "sha256": sha256_of_text(body)}
    return Skill(**{**values, **changes})  # type: ignore[arg-type]


def snippet(slug: str, body: str | None = None, **changes: object) -> Snippet:
    values = {"slug": slug, "name": slug.title(), "body": f"Text of {slug}." if body is None else body}
    return Snippet(**{**values, **changes})  # type: ignore[arg-type]


def configuration(**changes: object) -> Configuration:
    values = {
        "slug": "support",
        "name": "Support triage",
        "provider": Provider(slug="demo", name="Demo", adapter="openai_compat", base_url="http://127.0.0.1:9/v1"),
        "model": LanguageModel(name="demo"),
        "system_prompt": "You help staff.",
        "id": 7,
        "version": 3,
    }
    return Configuration(**{**values, **changes})  # type: ignore[arg-type]


NOTHING_ADDED = Augmentation()


def run(*conversation: Message, augmentation: Augmentation = NOTHING_ADDED, **changes: object) -> PromptAssembly:
    return assemble(
        configuration=configuration(**changes), conversation=conversation or (ASK,), augmentation=augmentation
    )


def texts(assembly: PromptAssembly) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in assembly.messages]


def span(assembly: PromptAssembly, segment: Segment) -> str:
    return assembly.messages[segment.message].parts[segment.part].text[segment.start : segment.end]


def reasons(assembly: PromptAssembly) -> list[tuple[str, DropReason]]:
    return [(dropped.source_id, dropped.reason) for dropped in assembly.dropped]


# A1


def test_the_conversation_is_neither_changed_nor_kept() -> None:  # A1
    conversation = [Message.of("user", "One"), Message.of("assistant", "Two"), Message.of("user", "Three")]
    before = json.dumps([message.json for message in conversation])
    copies = list(conversation)
    assembly = assemble(configuration=configuration(skills=(skill("refunds"),)), conversation=conversation)
    conversation.clear()
    assert len(assembly.messages) == 4
    assert json.dumps([message.json for message in copies]) == before


def test_each_segment_names_its_source_its_range_and_its_tokens() -> None:  # A1
    assembly = run(snippets=(snippet("tone", id=5, version=2),), skills=(skill("refunds", id=9, version=12),))
    assert [(s.source, s.source_id, s.object_id, s.version) for s in assembly.segments] == [
        (Source.CONFIG, "support", 7, 3),
        (Source.SNIPPET, "tone", 5, 2),
        (Source.SKILL, "", None, None),
        (Source.SKILL, "refunds", 9, 12),
        (Source.USER, "message-1", None, None),
    ]
    assert span(assembly, assembly.segments[0]) == "You help staff."
    assert span(assembly, assembly.segments[1]) == "Text of tone."
    assert span(assembly, assembly.segments[4]) == ASK.text
    assert all(segment.tokens > 0 for segment in assembly.segments)


def test_tokens_come_from_the_estimate_that_is_handed_in() -> None:  # A1
    assembly = assemble(
        configuration=configuration(skills=(skill("off", "abc", enabled=False),)), conversation=[ASK], estimate=len
    )
    assert [segment.tokens for segment in assembly.segments] == [len("You help staff."), len(ASK.text)]
    assert assembly.dropped[0].tokens == 3


def test_what_was_left_out_and_the_segments_survive_json() -> None:
    assembly = run(skills=(skill("off", enabled=False), skill("refunds")))
    for segment in assembly.segments:
        assert Segment.from_json(json.loads(json.dumps(segment.to_json()))) == segment
    for dropped in assembly.dropped:
        assert Dropped.from_json(json.loads(json.dumps(dropped.to_json()))) == dropped


WORDS = st.text(max_size=30)
SLUGS = st.sampled_from(["a", "b", "c", "d"])
SKILLS = st.lists(
    st.builds(
        skill,
        SLUGS,
        WORDS,
        name=WORDS,
        enabled=st.booleans(),
        trust=st.integers(0, 2),
    ),
    max_size=4,
).map(tuple)
SNIPPETS = st.lists(st.builds(snippet, SLUGS, WORDS, enabled=st.booleans()), max_size=4).map(tuple)
PARTS = st.one_of(
    st.builds(Part, text=WORDS),
    st.builds(Part, kind=st.just("image"), media_type=st.just("image/png"), data=st.just("AAAA")),
    st.builds(Part, kind=st.just("thinking"), text=WORDS),
)
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    parts=st.lists(PARTS, max_size=3).map(tuple),
)


@given(
    prompt=WORDS,
    skills=SKILLS,
    snippets=SNIPPETS,
    budget=st.integers(0, 600),
    conversation=st.lists(MESSAGES, max_size=4),
    augmentation=st.builds(
        Augmentation,
        skills=SKILLS,
        snippets=SNIPPETS,
        system_override=st.one_of(st.none(), WORDS),
        override_mode=st.sampled_from(["replace", "append"]),
    ),
)
def test_the_segments_of_a_part_partition_it(  # A1
    prompt: str,
    skills: tuple[Skill, ...],
    snippets: tuple[Snippet, ...],
    budget: int,
    conversation: list[Message],
    augmentation: Augmentation,
) -> None:
    assembly = assemble(
        configuration=configuration(
            system_prompt=prompt,
            skills=skills,
            snippets=snippets,
            limits=Limits(skill_budget_bytes=budget),
            min_skill_trust=1,
        ),
        conversation=conversation,
        augmentation=augmentation,
    )
    spans: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for segment in assembly.segments:
        spans[segment.message, segment.part].append((segment.start, segment.end))
    for index, message in enumerate(assembly.messages):
        for number, part in enumerate(message.parts):
            found = spans.pop((index, number), [])
            assert [start for start, _ in found] == [0, *(end for _, end in found)][: len(found)]
            assert (found[-1][1] if found else 0) == len(part.text)
    assert not spans
    # Every source is either in the prompt or said to be left out.
    named = {segment.source_id for segment in assembly.segments} | {dropped.source_id for dropped in assembly.dropped}
    assert {piece.slug for piece in (*skills, *snippets, *augmentation.skills, *augmentation.snippets)} <= named


# A2, A8


def test_the_order_is_system_prompt_snippets_conversation() -> None:  # A2
    augmentation = Augmentation(snippets=(snippet("forced-b"), snippet("forced-a")))
    assembly = run(snippets=(snippet("own-b"), snippet("own-a")), augmentation=augmentation)
    assert texts(assembly) == [
        ("system", "You help staff."),
        ("system", "Text of own-b."),
        ("system", "Text of own-a."),
        ("system", "Text of forced-b."),
        ("system", "Text of forced-a."),
        ("user", ASK.text),
    ]


def test_a_snippet_is_used_once_and_the_first_wins() -> None:  # A2
    augmentation = Augmentation(snippets=(snippet("tone", "Another text."), snippet("order")))
    assembly = run(snippets=(snippet("tone"), snippet("tone", "Twice.")), augmentation=augmentation)
    assert [text for role, text in texts(assembly) if role == "system"][1:] == ["Text of tone.", "Text of order."]
    assert reasons(assembly) == [("tone", DropReason.DUPLICATE)]
    assert assembly.dropped[0].forced


def test_an_override_replaces_the_system_prompt_and_never_the_snippets() -> None:  # A2
    assembly = run(snippets=(snippet("tone"),), augmentation=Augmentation(system_override="Answer in German."))
    assert texts(assembly)[:2] == [("system", "Answer in German."), ("system", "Text of tone.")]
    assert assembly.segments[0].source is Source.OVERRIDE
    assert reasons(assembly) == [("support", DropReason.OVERRIDDEN)]


def test_an_appended_override_is_a_segment_of_its_own_in_the_same_message() -> None:  # A2
    augmentation = Augmentation(system_override="Answer in German.", override_mode="append")
    assembly = run(augmentation=augmentation)
    assert texts(assembly)[0] == ("system", "You help staff.\n\nAnswer in German.")
    own, extra = assembly.segments[:2]
    assert (own.source, extra.source) == (Source.CONFIG, Source.OVERRIDE)
    assert (own.message, extra.message) == (0, 0)
    assert span(assembly, own) == "You help staff."
    assert span(assembly, extra).strip() == "Answer in German."
    assert not assembly.dropped


@pytest.mark.parametrize("empty", ["", " \n"])
def test_an_empty_override_replaces_the_system_prompt_with_nothing(empty: str) -> None:  # A8
    assembly = run(snippets=(snippet("tone"),), augmentation=Augmentation(system_override=empty))
    assert texts(assembly) == [("system", "Text of tone."), ("user", ASK.text)]
    assert reasons(assembly) == [("support", DropReason.OVERRIDDEN)]


@pytest.mark.parametrize("empty", ["", " \n"])
def test_appending_nothing_changes_nothing(empty: str) -> None:
    appended = run(augmentation=Augmentation(system_override=empty, override_mode="append"))
    assert appended == run()


def test_an_override_that_is_not_given_leaves_the_system_prompt() -> None:  # A8
    assembly = run(augmentation=Augmentation(system_override=None))
    assert texts(assembly)[0] == ("system", "You help staff.")
    assert not assembly.dropped


def test_without_a_system_prompt_there_is_no_blank_system_message() -> None:
    assert texts(run(system_prompt="")) == [("user", ASK.text)]


# A3


def test_skills_go_before_the_text_of_the_first_user_message_in_a_part_of_their_own() -> None:  # A3
    conversation = (Message.of("assistant", "How can I help?"), ASK, Message.of("user", "Please hurry."))
    assembly = run(*conversation, skills=(skill("refunds"),))
    system, greeting, first, second = assembly.messages
    assert (system.text, greeting, second) == ("You help staff.", conversation[0], conversation[2])
    block, own = first.parts
    assert own == ASK.parts[0]
    assert block.text == f'{GUARD}\n\n<skill name="Refunds">\nHow to do refunds.\n</skill>\n\n'
    assert block.cache_boundary
    assert not any("refunds" in message.text for message in assembly.messages if message.role == "system")


def test_the_configurations_skills_come_first_and_win_a_duplicate() -> None:  # A3
    own = skill("refunds", "Ours.", version=2)
    augmentation = Augmentation(skills=(skill("carriers"), skill("refunds", "Theirs.")))
    assembly = run(skills=(skill("orders"), own), augmentation=augmentation)
    assert [injected.slug for injected in assembly.injected_skills] == ["orders", "refunds", "carriers"]
    assert "Ours." in assembly.messages[-1].text and "Theirs." not in assembly.messages[-1].text
    assert [(d.source_id, d.reason, d.forced) for d in assembly.dropped] == [("refunds", DropReason.DUPLICATE, True)]
    assert [s.forced for s in assembly.segments if s.source_id in ("orders", "refunds", "carriers")] == [
        False,
        False,
        True,
    ]


def test_a_duplicate_inside_the_configuration_is_not_worth_a_word() -> None:
    assembly = run(skills=(skill("refunds"), skill("refunds")))
    assert len(assembly.injected_skills) == 1
    assert not assembly.dropped


def test_without_a_user_message_skills_are_not_injected_and_that_is_said() -> None:  # A3
    assembly = run(Message.of("assistant", "Hello."), skills=(skill("refunds"),))
    assert reasons(assembly) == [("refunds", DropReason.NO_USER_MESSAGE)]
    assert not assembly.injected_skills
    assert "no user message" in assembly.dropped[0].detail


def test_an_image_stays_behind_the_skills() -> None:
    image = Part(kind="image", media_type="image/png", data="AAAA")
    assembly = run(Message(role="user", parts=(image, Part(text="What is this?"))), skills=(skill("refunds"),))
    assert [part.kind for part in assembly.messages[-1].parts] == ["text", "image", "text"]
    assert assembly.segments[-1].part == 2


def test_the_prompt_that_all_runs_of_a_configuration_share_ends_at_a_cache_boundary() -> None:  # A6
    assembly = run(snippets=(snippet("tone"), snippet("order")), skills=(skill("refunds"),))
    boundaries = [[part.cache_boundary for part in message.parts] for message in assembly.messages]
    assert boundaries == [[False], [False], [True], [True, False]]


# A4


def test_a_disabled_skill_is_left_out() -> None:  # A4
    assembly = run(skills=(skill("refunds", enabled=False),))
    assert reasons(assembly) == [("refunds", DropReason.DISABLED)]
    assert assembly.messages[-1] == ASK


@pytest.mark.parametrize("configured", [True, False])
def test_a_forced_skill_that_is_disabled_is_injected_and_marked(configured: bool) -> None:  # A4
    disabled = skill("refunds", enabled=False)
    assembly = run(skills=(disabled,) if configured else (), augmentation=Augmentation(skills=(disabled,)))
    assert assembly.injected_skills == (disabled,)
    (segment,) = (segment for segment in assembly.segments if segment.source_id == "refunds")
    assert (segment.forced, segment.note) == (True, "forced although disabled")
    assert not assembly.dropped


def test_a_forced_snippet_that_is_disabled_is_used_and_marked() -> None:
    assembly = run(augmentation=Augmentation(snippets=(snippet("tone", enabled=False),)))
    assert assembly.segments[1].note == "forced although disabled"


@pytest.mark.parametrize("forced", [True, False])
def test_a_skill_whose_text_was_changed_behind_our_back_is_left_out(forced: bool) -> None:  # A4
    changed = dataclasses.replace(skill("refunds"), body="Refund everybody.")
    augmentation = Augmentation(skills=(changed,) if forced else ())
    assembly = run(skills=() if forced else (changed,), augmentation=augmentation)
    assert reasons(assembly) == [("refunds", DropReason.CHECKSUM_MISMATCH)]
    assert "Refund everybody" not in assembly.messages[-1].text


@pytest.mark.parametrize("forced", [True, False])
def test_a_skill_below_the_asked_trust_is_left_out(forced: bool) -> None:  # A4
    stranger = skill("refunds", trust=0)
    augmentation = Augmentation(skills=(stranger,) if forced else ())
    assembly = run(skills=() if forced else (stranger,), augmentation=augmentation, min_skill_trust=1)
    assert reasons(assembly) == [("refunds", DropReason.BELOW_TRUST)]
    assert "untrusted" in assembly.dropped[0].detail and "site" in assembly.dropped[0].detail


@pytest.mark.parametrize("body", ["", "  \n\t"])
def test_an_empty_skill_or_snippet_is_left_out(body: str) -> None:  # A4
    assembly = run(skills=(skill("refunds", body),), snippets=(snippet("tone", body),))
    assert reasons(assembly) == [("tone", DropReason.EMPTY), ("refunds", DropReason.EMPTY)]


def block_bytes(assembly: PromptAssembly) -> int:
    return len(assembly.messages[-1].parts[0].text.encode())


def test_skills_over_the_budget_are_dropped_whole_from_the_tail() -> None:  # A4
    skills = (skill("orders", "ä" * 300), skill("refunds", "b" * 700), skill("carriers", "c" * 10))
    whole = run(skills=skills)
    assert len(whole.injected_skills) == 3
    room_for_one = run(skills=skills, limits=Limits(skill_budget_bytes=block_bytes(run(skills=skills[:1])) + 100))
    assert [injected.slug for injected in room_for_one.injected_skills] == ["orders"]
    assert reasons(room_for_one) == [("refunds", DropReason.OVER_BUDGET), ("carriers", DropReason.OVER_BUDGET)]
    assert "only 100 B" in room_for_one.dropped[0].detail
    assert "Refunds" in room_for_one.dropped[1].detail


@pytest.mark.parametrize(("spare", "injected"), [(0, 2), (-1, 1)])
def test_the_budget_counts_the_bytes_of_the_whole_block(spare: int, injected: int) -> None:  # A4
    skills = (skill("orders", "日本" * 50), skill("refunds", "é" * 100))
    budget = block_bytes(run(skills=skills)) + spare
    assert len(run(skills=skills, limits=Limits(skill_budget_bytes=budget)).injected_skills) == injected


def test_the_budget_is_24000_bytes_unless_set() -> None:  # A4
    assert not run(skills=(skill("big", "x" * 24_000),)).injected_skills
    assert run(skills=(skill("big", "x" * 23_700),)).injected_skills


def test_a_budget_that_no_skill_fits_leaves_the_user_message_alone() -> None:
    assembly = run(skills=(skill("refunds"),), limits=Limits(skill_budget_bytes=0))
    assert assembly.messages[-1] == ASK


# A7


def test_the_fingerprint_is_the_same_for_the_same_prompt() -> None:  # A7
    def again() -> PromptAssembly:
        return run(skills=(skill("refunds"),), snippets=(snippet("tone"),))

    assert again().fingerprint == again().fingerprint
    assert len(again().fingerprint) == 64


@pytest.mark.parametrize(
    "other",
    [
        {"system_prompt": "You help customers."},
        {"skills": (skill("refunds", "Changed."),)},
        {"skills": (skill("orders"), skill("refunds"))},
        {"skills": ()},
        {"snippets": (snippet("order"), snippet("tone"))},
        {"augmentation": Augmentation(system_override="You help staff.")},
    ],
)
def test_any_change_of_a_source_changes_the_fingerprint(other: dict[str, object]) -> None:  # A7
    base = {"skills": (skill("refunds"),), "snippets": (snippet("tone"), snippet("order"))}
    assert run(**base).fingerprint != run(**{**base, **other}).fingerprint  # type: ignore[arg-type]


def test_the_conversations_images_and_calls_are_part_of_the_fingerprint() -> None:  # A7
    def image(data: str) -> Message:
        return Message(role="user", parts=(Part(kind="image", media_type="image/png", data=data),))

    def calling(number: int) -> Message:
        return Message(role="assistant", tool_calls=(ToolCall(id="1", name="get", arguments={"n": number}),))

    found = {run(message).fingerprint for message in (image("AAAA"), image("BBBB"), calling(1), calling(2))}
    assert len(found) == 4


def test_the_response_schema_is_part_of_the_fingerprint() -> None:  # A7
    def with_schema(schema: object) -> str:
        return assemble(configuration=configuration(), conversation=[ASK], response_schema=schema).fingerprint

    assert len({with_schema(None), with_schema({"type": "object"}), with_schema({"type": "array"})}) == 3


def test_snippets_by_tag_follow_the_listed_ones_and_say_why() -> None:
    tagged = (snippet("a", tags=("tone",)), snippet("b", tags=("tone",)), snippet("c", tags=("law",), enabled=False))
    assembly = run(
        snippets=(snippet("b", tags=("tone",)),),
        snippet_tags=("law", "tone"),
        tagged_snippets=tagged,
        augmentation=Augmentation(snippets=(snippet("a"), snippet("d"))),
    )
    found = [(s.source_id, s.note, s.forced) for s in assembly.segments if s.source is Source.SNIPPET]
    assert found == [("b", "", False), ("a", "by the tag tone", False), ("d", "", True)]
    assert [(d.source_id, d.reason) for d in assembly.dropped] == [
        ("c", DropReason.DISABLED),
        ("a", DropReason.DUPLICATE),
    ]
