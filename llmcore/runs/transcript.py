"""Makes a transcript fit to be sent: each tool call is followed by exactly one result, in the order of the calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llmcore.messages import Message, Part, ToolCall

INTERRUPTED = "This call was interrupted before its result was known. Whether it had an effect is unknown."


def tool_message(call: ToolCall, text: str, *, is_error: bool = False) -> Message:
    """The result of `call` as a message."""
    return Message(role="tool", parts=(Part(text=text),), tool_call_id=call.id, name=call.name, is_error=is_error)


def interrupted(call: ToolCall) -> Message:
    return tool_message(call, INTERRUPTED, is_error=True)


def mend(messages: Sequence[Message]) -> tuple[list[Message], list[str]]:
    """A copy of `messages` that can be sent, and what had to be mended, in words.

    A result belongs to the nearest assistant message before it. The same input always gives the same copy.
    """
    mended: list[Message] = []
    repairs: list[str] = []
    start = 0
    for end in range(1, len(messages) + 1):
        if end == len(messages) or messages[end].role == "assistant":
            mended += _mended_turn(messages[start:end], repairs)
            start = end
    return mended, repairs


def split_results(calls: Sequence[ToolCall], results: Iterable[Message]) -> tuple[dict[int, Message], list[Message]]:
    """The results by the index of the call that they answer, and those that answer none."""
    unanswered: dict[str | None, list[int]] = {}
    for index, call in enumerate(calls):
        unanswered.setdefault(call.id, []).append(index)
    found: dict[int, Message] = {}
    stray: list[Message] = []
    for result in results:
        if waiting := unanswered.get(result.tool_call_id):
            found[waiting.pop(0)] = result
        else:
            stray.append(result)
    return found, stray


def _mended_turn(turn: Sequence[Message], repairs: list[str]) -> list[Message]:
    """One assistant message with all that follows it up to the next one (the first turn may have none)."""
    calls = turn[0].tool_calls
    results = [message for message in turn if message.role == "tool"]
    if not calls and not results:
        return list(turn)
    found, stray = split_results(calls, results)
    repairs += [f"left out a result for {message.tool_call_id!r}, which answers no open call" for message in stray]
    asking = [message for message in turn[:1] if message.role != "tool"]
    others = [message for message in turn[1:] if message.role != "tool"]
    answers = [found[index] for index in sorted(found)]
    if not _same([*asking, *answers, *others], [message for message in turn if not _among(message, stray)]):
        repairs.append("moved results behind the message whose calls they answer, in the order of the calls")
    for index, call in enumerate(calls):
        if index not in found:
            found[index] = interrupted(call)
            repairs.append(f"added an interrupted result for the call {call.id!r} of {call.name!r}")
    return [*asking, *(found[index] for index in range(len(calls))), *others]


def _same(first: Sequence[Message], second: Sequence[Message]) -> bool:
    return len(first) == len(second) and all(one is other for one, other in zip(first, second, strict=True))


def _among(message: Message, messages: Iterable[Message]) -> bool:
    return any(message is other for other in messages)
