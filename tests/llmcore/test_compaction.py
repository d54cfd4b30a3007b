"""What of a transcript gives way to a summary: whole turns only, never the task, and never twice for nothing."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmcore.configuration import LanguageModel, Parameters, Provider, Route, Summarizer
from llmcore.context.compaction import (
    LEFT_OUT,
    SUMMARY,
    Compaction,
    compaction_of,
    is_summary,
    marker_message,
    summary_in,
    summary_message,
)
from llmcore.context.estimator import Estimator
from llmcore.context.summary import PIECE_CHARS, RECORD_CHARS, flattened, question, summarizing_call
from llmcore.messages import Message, Part, ToolCall
from llmcore.providers.base import CallPurpose, ModelCall, Transcript
from llmcore.providers.registry import adapter_of, adapters
from llmcore.runs.compacting import task_of
from llmcore.runs.transcript import mend, tool_message

HERE = Provider(slug="here", name="Here", adapter="openai_compat", base_url="https://llm.example.com/v1")


def turn(number: int, calls: int = 1, text: str = "") -> list[Message]:
    """What the model said, with the results of its calls."""
    asked = tuple(ToolCall(id=f"{number}-{n}", name="look_up", arguments={"n": n}) for n in range(calls))
    parts = (Part(text=text or f"turn {number}"),)
    said = Message(role="assistant", parts=parts, tool_calls=asked)
    return [said, *(tool_message(call, f"order {call.id}") for call in asked)]


@st.composite
def transcripts(draw: st.DrawFn) -> list[Message]:
    messages = [Message.of("system", f"rule {n}") for n in range(draw(st.integers(0, 2)))]
    if draw(st.booleans()):
        messages.append(summary_message("what was before") if draw(st.booleans()) else Message.of("user", "task"))
    for number in range(draw(st.integers(0, 8))):
        match draw(st.sampled_from(["turn", "turn", "turn", "user", "summary", "system"])):
            case "turn":
                messages += turn(number, draw(st.integers(0, 3)))
            case "user":
                messages.append(Message.of("user", f"and {number}?"))
            case "summary":
                messages.append(draw(st.sampled_from([summary_message("earlier"), marker_message([])])))
            case "system":
                messages.append(Message.of("system", f"note {number}"))
    return messages


def compacted(messages: list[Message], keep_turns: int) -> list[Message] | None:
    found = compaction_of(messages, keep_turns=keep_turns)
    return None if found is None else found.apply(messages, summary_message("all of it"))


@settings(max_examples=300)
@given(messages=transcripts(), keep=st.integers(1, 4))
def test_turns_stay_whole_and_the_task_stays(messages: list[Message], keep: int) -> None:  # C2
    assert mend(messages) == (messages, [])
    after = compacted(messages, keep)
    if after is None:
        return
    assert mend(after) == (after, []), "no call lost its result, no result its call"
    asked = [message for message in messages if message.role == "user" and not is_summary(message)]
    for pinned in [*(m for m in messages if m.role == "system"), *asked[:1], *asked[-1:]]:
        assert pinned in after
    turns = [message for message in messages if message.role == "assistant"]
    assert [message for message in after if message.role == "assistant"] == turns[-keep:]
    assert sum(map(is_summary, after)) >= 1 and len(after) <= len(messages) + 1
    kept = {id(message) for message in after}
    assert [m for m in messages if id(m) in kept] == [m for m in after if any(m is old for old in messages)]


@given(messages=transcripts(), keep=st.integers(1, 4))
def test_what_was_compacted_is_not_compacted_again(messages: list[Message], keep: int) -> None:
    after = compacted(messages, keep)
    assert after is None or compacted(after, keep) is None


@given(messages=transcripts(), keep=st.integers(1, 4), length=st.integers(0, 40))
def test_a_place_in_the_transcript_is_found_again(messages: list[Message], keep: int, length: int) -> None:
    found = compaction_of(messages, keep_turns=keep)
    if found is None:
        return
    length = min(length, len(messages))
    after = found.apply(messages, summary_message("all of it"))
    old = found.old(messages)
    kept = [message for message in messages[:length] if not any(message is gone for gone in old)]
    place = found.place_of(length)
    assert [message for message in after[:place] if any(message is old for old in messages)] == kept
    assert found.count == len(old) and Compaction.from_json(json.loads(json.dumps(found.to_json()))) == found


@settings(max_examples=50)
@given(keep=st.integers(1, 3), rounds=st.integers(1, 30))
def test_a_run_that_is_compacted_again_and_again_stays_short(keep: int, rounds: int) -> None:
    messages = [Message.of("system", "rule"), Message.of("user", "task")]
    for number in range(rounds):
        messages = compacted([*messages, *turn(number)], keep) or [*messages, *turn(number)]
        assert len(messages) <= 3 + 2 * (keep + 1)
    assert sum(map(is_summary, messages)) <= 1, "a summary takes the place of the one before"  # C3


def test_the_summary_stands_before_the_turns_that_stay() -> None:
    messages = [Message.of("system", "rule"), Message.of("user", "task"), *turn(1), *turn(2), *turn(3)]
    after = compacted(messages, 1)
    assert after is not None
    assert [message.role for message in after] == ["system", "user", "user", "assistant", "tool"]
    assert after[2].text == f"{SUMMARY}\n\nall of it" and after[3].text == "turn 3"


def test_a_conversation_keeps_its_first_and_its_last_question() -> None:
    said = [Message.of("user", "one"), *turn(1, 0), Message.of("user", "two"), *turn(2, 0), Message.of("user", "three")]
    after = compacted([*said, *turn(3)], 1)
    assert after is not None and [message.text for message in after if message.role == "user"] == [
        "one",
        "three",
        f"{SUMMARY}\n\nall of it",
    ]


@pytest.mark.parametrize("beginning", [SUMMARY, LEFT_OUT])
def test_a_task_that_begins_like_a_summary_is_the_task(beginning: str) -> None:
    task = Message.of("user", f"{beginning}\n\nThe user wants all files deleted.")
    messages = [Message.of("system", "rule"), task, *turn(1), *turn(2), *turn(3)]

    after = compacted(messages, 1)

    assert after is not None and after[:2] == messages[:2] and task_of(messages) == task.text
    assert marker_message([task, *turn(1)]).text == LEFT_OUT, "it is no summary to be handed on"


@pytest.mark.parametrize("adapter", sorted(adapters()))
def test_what_marks_a_summary_is_not_sent(adapter: str) -> None:
    provider = Provider(slug="here", name="Here", adapter=adapter, base_url="https://llm.example.com/v1")
    call = ModelCall(provider=provider, model=LanguageModel(name="m"))
    message = summary_message("Order 1 left.")

    sent, plain = (
        Transcript(adapter_of(provider, call.model), call, [one]).encoded()
        for one in (message, Message.of("user", message.text))
    )

    assert list(sent) == list(plain)


def test_a_marker_says_that_turns_are_gone_and_keeps_what_was_summarized_before() -> None:
    assert marker_message(turn(1)).text == LEFT_OUT
    again = marker_message([summary_message("Order 1 left."), *turn(2)])
    assert again.text == f"{SUMMARY}\n\nOrder 1 left.\n\n{LEFT_OUT}" and is_summary(again)
    # Neither nests.
    assert marker_message([again, *turn(3)]).text == again.text
    assert summary_in(again) == "Order 1 left." and summary_in(marker_message([])) == ""


def test_a_record_is_plain_text_without_thinking() -> None:
    thought = Part(kind="thinking", text="secret thoughts", extra={"signature": "abc"})
    asked = ToolCall(id="1", name="look_up", arguments={"n": "Ø"})
    said = Message(role="assistant", parts=(thought, Part(text="I look.")), tool_calls=(asked,))
    gone = tool_message(asked, "no such order", is_error=True)
    record = "\n\n".join(flattened([summary_message("Before."), said, gone]))
    assert record == (
        "Summary of what came before:\nBefore.\n\nAssistant:\nI look.\n\n"
        'Call of look_up: {"n": "Ø"}\n\nError of look_up:\nno such order'
    )


def summarizer(**model: object) -> Summarizer:
    return Summarizer(name="Short", route=Route(provider=HERE, model=LanguageModel(name="s", **model)))  # type: ignore[arg-type]


def test_a_call_to_summarize_has_no_tools_and_a_bounded_answer() -> None:
    call = summarizing_call(summarizer(context_window=4_000))
    assert (call.tools, call.purpose, call.parameters.max_tokens) == ((), CallPurpose.SUMMARY, 1_000)
    assert summarizing_call(summarizer()).parameters.max_tokens == 2_000
    assert summarizing_call(summarizer(supports_thinking=True, max_output_tokens=5_000)).parameters.max_tokens == 5_000
    asked = Summarizer(
        name="Short",
        route=summarizer().route,
        parameters=Parameters(max_tokens=300, tool_choice="required", temperature=0.1),
    )
    assert summarizing_call(asked).parameters == Parameters(max_tokens=300, temperature=0.1)


@pytest.mark.parametrize(
    "text", ["The order was shipped. ", "客户还没有收到包裹。", '{"id": 12345, "ok": true}, ', "9f86d081884c7d65"]
)
@pytest.mark.parametrize("window", [1_000, 8_192, 32_000])
def test_a_record_fits_the_window_of_whoever_summarizes_in_any_script(text: str, window: int) -> None:  # C2
    long = [tool_message(ToolCall(id="1", name="read", arguments={}), text * 1_000)] * 100
    who = summarizer()
    whole = question(who, summarizing_call(who), long, "task")[1].text
    assert PIECE_CHARS < len(whole) < RECORD_CHARS + 1_000
    small = summarizer(context_window=window)
    call = summarizing_call(small)
    prompt = sum(map(Estimator.of(small.route.model).message, question(small, call, long, "task")))
    assert window / 2 < prompt + (call.parameters.max_tokens or 0) <= window
