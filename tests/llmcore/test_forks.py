"""A transcript that a person edited: what changes with it, and what can't be sent."""

from __future__ import annotations

import pytest

from llmcore.messages import Message, Part, ToolCall
from llmcore.runs.editing import Edit, arguments_of, each_edited, objections_to, portable, with_edits
from llmcore.runs.fork import awaiting, end_of_fork
from llmcore.runs.state import RunState
from llmcore.runs.transcript import tool_message
from llmcore.trace import RunStep, StepKind

CALL = ToolCall(id="c1", name="look_up", arguments={"n": 1}, extra={"wire": "gemini", "signature": "s"})
ITEM = Part(kind="thinking", text="Hm", extra={"wire": "openai_responses", "item": {"id": "rs_1"}})
SIGNED = Part(kind="thinking", text="Hm", extra={"wire": "anthropic", "signature": "s"})
SAID = Part(text="I look.", extra={"wire": "openai_responses", "item": {"id": "msg_1"}})


def asked(*parts: Part) -> list[Message]:
    return [
        Message.of("system", "You help."),
        Message.of("user", "Where is it?"),
        Message(role="assistant", parts=parts or (SAID,), tool_calls=(CALL,)),
        tool_message(CALL, "order 1"),
    ]


def test_what_is_not_edited_is_the_very_same_message() -> None:
    before = asked()
    after = each_edited(before, [Edit(message=1, part=0, text="Where?"), Edit(message=3, part=0, text="order 1")])
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, False, True, True]
    assert after[1].text == "Where?"


def test_an_edited_text_takes_nothing_along_that_a_provider_bound_to_the_old_one() -> None:
    said = each_edited(asked(ITEM, SAID), [Edit(message=2, part=1, text="I search.")])[2]
    assert said.parts == (Part(text="I search."),)
    assert said.tool_calls == (CALL,)


def test_thinking_that_is_signed_by_itself_stays() -> None:
    said = each_edited(asked(SIGNED, Part(text="I look.")), [Edit(message=2, part=1, text="I search.")])[2]
    assert said.parts == (SIGNED, Part(text="I search."))


def test_several_edits_of_one_message_find_their_places() -> None:
    parts = (Part(text="one"), Part(text="two"))
    edits = [
        Edit(message=2, part=0, text=""),
        Edit(message=2, part=1, text="three"),
        Edit(message=2, call=0, text="{}"),
    ]
    said = each_edited(asked(*parts), edits)[2]
    assert (said.text, said.tool_calls[0].arguments, said.tool_calls[0].extra) == ("three", {}, None)


def test_a_result_can_be_made_a_failure() -> None:
    result = each_edited(asked(), [Edit(message=3, part=0, text="gone", is_error=True)])[3]
    assert (result.text, result.is_error, result.tool_call_id) == ("gone", True, "c1")


def test_an_emptied_system_message_is_left_out_and_an_emptied_result_stays() -> None:
    after = with_edits(asked(), [Edit(message=0, part=0, text=""), Edit(message=3, part=0, text="")])
    assert [message.role for message in after] == ["user", "assistant", "tool"]
    assert objections_to(after) == []


@pytest.mark.parametrize(
    ("text", "reason"), [("[1]", "object"), ("{", "no JSON"), ("[" * 100_000, "JSON"), ('{"n": NaN}', "NaN")]
)
def test_arguments_that_are_no_object_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        arguments_of(text)


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "nothing to answer"),
        (asked()[2:], "begins with a user message"),
        ([*asked()[:3], Message.of("user", "And?")], "has no result"),
        ([*asked(), tool_message(CALL, "again")], "answers no call"),
        ([*asked(), Message.of("assistant", "a"), Message.of("assistant", "b")], "follow each other"),
        ([Message.of("user", " ")], "no text any more"),
    ],
)
def test_a_transcript_that_providers_refuse_is_refused_here(messages: list[Message], reason: str) -> None:
    assert reason in " ".join(text for _, text in objections_to(messages))


def test_calls_that_are_still_to_run_are_no_objection() -> None:
    assert objections_to(asked()[:3]) == []


def test_another_model_gets_nothing_that_only_the_first_one_understands() -> None:
    said = portable(asked(SIGNED, SAID))[2]
    assert said.parts == (Part(text="I look."),)
    assert (said.tool_calls[0].extra, said.tool_calls[0].arguments) == (None, {"n": 1})


def steps(*kinds: StepKind) -> list[RunStep]:
    return [RunStep(sequence=n, round=1, kind=kind, started_ms=0.0) for n, kind in enumerate(kinds, start=1)]


ROUNDS = steps(
    StepKind.REQUEST, StepKind.RESPONSE, StepKind.TOOL_CALL, StepKind.TOOL_RESULT,
    StepKind.REQUEST, StepKind.RETRY, StepKind.RESPONSE, StepKind.TOOL_CALL, StepKind.TOOL_RESULT,
)  # fmt: skip


@pytest.mark.parametrize(("at", "end"), [(0, 1), (1, 1), (3, 5), (4, 5), (5, 5), (6, 5), (8, 10), (99, 1)])
def test_a_fork_keeps_whole_rounds(at: int, end: int) -> None:
    assert end_of_fork(ROUNDS, at) == end


def test_a_fork_of_a_dry_run_begins_at_its_start() -> None:
    assert end_of_fork(steps(StepKind.ASSEMBLED), 1) == 1


def test_no_decision_of_the_first_run_holds_in_the_second() -> None:
    state = awaiting(RunState(messages=tuple(asked()), decisions={"c1": object()}))  # type: ignore[dict-item]
    assert (state.decisions, state.finish_reason) == ({}, None)
