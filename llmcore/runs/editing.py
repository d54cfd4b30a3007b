"""Changes texts of a transcript, and says what keeps a changed transcript from being sent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from llmcore.messages import JSON, Message, Part
from llmcore.providers.json_text import decode_json
from llmcore.runs.transcript import split_results


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """A text of a transcript as a person wants it: of the part `part` of message `message`, or the arguments (JSON) of
    its call `call`; all counted from 0. For a result, `is_error` says whether the model is told that the call failed.
    """

    message: int
    text: str
    part: int | None = None
    call: int | None = None
    is_error: bool | None = None


def with_edits(messages: Sequence[Message], edits: Iterable[Edit]) -> tuple[Message, ...]:
    """The transcript with the edits made; ValueError where an edit is of something that isn't there, or of arguments
    that are no JSON object. A system message without text is left out."""
    edited = each_edited(messages, edits)
    return tuple(message for message in edited if message.role != "system" or message.parts)


def each_edited(messages: Sequence[Message], edits: Iterable[Edit]) -> list[Message]:
    """The messages in their places with the edits made; a message whose edits change nothing is the same object."""
    by_message: dict[int, list[Edit]] = {}
    for edit in edits:
        if not 0 <= edit.message < len(messages):
            raise ValueError(f"there is no message {edit.message + 1}")
        by_message.setdefault(edit.message, []).append(edit)
    return [
        _edited(message, by_message[index]) if index in by_message else message
        for index, message in enumerate(messages)
    ]


def portable(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The transcript as another model can read it: without what only the model that wrote it understands, such as
    signed thinking."""
    stripped = (_portable(message) if message.role == "assistant" else message for message in messages)
    return tuple(message for message in stripped if message.parts or message.tool_calls)


def objections_to(messages: Sequence[Message]) -> list[tuple[int | None, str]]:
    """What keeps the transcript from being sent, each with the message that it is about, where it is about one.

    Calls of the last assistant message may be without results: they run first.
    """
    found: list[tuple[int | None, str]] = []
    conversation = [(index, message) for index, message in enumerate(messages) if message.role != "system"]
    if not conversation:
        return [(None, "There is nothing to answer: the transcript has no user message.")]
    if conversation[0][1].role != "user":
        found.append((conversation[0][0], "A conversation begins with a user message."))
    for (_, before), (index, message) in pairwise(conversation):
        if message.role == before.role == "assistant":
            found.append((index, "Two messages of the model follow each other."))
    for index, message in conversation:
        if message.role != "tool" and not message.tool_calls and not _says_something(message):
            found.append((index, "This message has no text any more."))
    return found + _unpaired(messages)


def _edited(message: Message, edits: Iterable[Edit]) -> Message:
    edited = message
    for edit in edits:
        edited = _with_edit(edited, edit)
    if edited == message:
        return message
    kept = (part for part in edited.parts if part.kind != "text" or part.text or message.role == "tool")
    # A provider takes some items back only together with what was said as it was.
    return replace(edited, parts=tuple(part for part in kept if message.role != "assistant" or not _is_item(part)))


def _with_edit(message: Message, edit: Edit) -> Message:
    if edit.is_error is not None and message.role == "tool" and edit.is_error != message.is_error:
        message = replace(message, is_error=edit.is_error)
    if edit.call is not None:
        return _with_arguments(message, edit.call, arguments_of(edit.text))
    if edit.part is None or not 0 <= edit.part < len(message.parts) or message.parts[edit.part].kind != "text":
        raise ValueError(f"message {edit.message + 1} has no text {edit.part}")
    part = message.parts[edit.part]
    if part.text == edit.text:
        return message
    parts = list(message.parts)
    # What a provider wants back with a text belongs to the text as it was.
    parts[edit.part] = replace(part, text=edit.text, extra=None)
    return replace(message, parts=tuple(parts))


def arguments_of(text: str) -> dict[str, JSON]:
    """The arguments that a person typed in; ValueError where they are no JSON object."""
    try:
        value = decode_json(text or "{}")
    except json.JSONDecodeError as error:
        raise ValueError(f"This is no JSON: {error.msg}, in line {error.lineno}.") from error
    except ValueError as error:
        raise ValueError(f"This can't be sent as JSON: {error}.") from error
    if not isinstance(value, dict):
        raise ValueError("Arguments are a JSON object: {…}.")
    return value


def _with_arguments(message: Message, number: int, arguments: dict[str, JSON]) -> Message:
    if not 0 <= number < len(message.tool_calls):
        raise ValueError(f"there is no call {number}")
    calls = list(message.tool_calls)
    if calls[number].arguments == arguments:
        return message
    calls[number] = replace(calls[number], arguments=arguments, arguments_raw=None, problem=None, extra=None)
    return replace(message, tool_calls=tuple(calls))


def _is_item(part: Part) -> bool:
    return part.kind != "text" and isinstance(part.extra, dict) and "item" in part.extra


def _portable(message: Message) -> Message:
    parts = tuple(replace(part, extra=None) for part in message.parts if part.kind in ("text", "image"))
    calls = tuple(replace(call, extra=None, provider_id=None) for call in message.tool_calls)
    return replace(message, parts=parts, tool_calls=calls)


def _says_something(message: Message) -> bool:
    return any(part.kind != "text" or part.text.strip() for part in message.parts)


def _unpaired(messages: Sequence[Message]) -> list[tuple[int | None, str]]:
    found: list[tuple[int | None, str]] = []
    starts = [index for index, message in enumerate(messages) if message.role == "assistant"]
    for start, end in pairwise([*starts, len(messages)]):
        results = [message for message in messages[start + 1 : end] if message.role == "tool"]
        calls = messages[start].tool_calls
        answered, stray = split_results(calls, results)
        last = end == len(messages) and all(message.role == "tool" for message in messages[start + 1 :])
        if len(answered) < len(calls) and not last:
            found.append((start, "A call in this message has no result."))
        found += [(start, "A result after this message answers no call of it.") for _ in stray]
    return found
