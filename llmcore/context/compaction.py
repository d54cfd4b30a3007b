"""Which messages of a transcript give way to one, and what that one says: pure functions over messages.

A turn is a message of the model with all its results. System messages and the task are pinned: the first user message,
which carries the skills, and the last one. A summary stands before the turns that stay; the next one takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from llmcore.messages import Message

# How the message begins that stands for earlier turns. It is the user's, for no wire has another place for it.
SUMMARY = "[Summary of the earlier turns, which are no longer here]"
# The name of that message, which no wire sends. Its text proves nothing: anybody's may begin so.
STANDS_IN = "summary"
LEFT_OUT = "[Earlier turns are no longer here, and not summarized. Call a tool again where you need its result.]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Compaction:
    """A change of a transcript: the messages in the ranges `folded` (from, to; in order) go, and of what remains the
    message `at` is a new one that stands for them."""

    folded: tuple[tuple[int, int], ...]
    at: int

    @property
    def count(self) -> int:
        return sum(end - start for start, end in self.folded)

    def old(self, messages: Sequence[Message]) -> list[Message]:
        return [message for start, end in self.folded for message in messages[start:end]]

    def apply(self, messages: Sequence[Message], instead: Message) -> list[Message]:
        """The transcript after it."""
        edges = [0, *(edge for span in self.folded for edge in span), len(messages)]
        kept = [message for start, end in zip(edges[::2], edges[1::2], strict=True) for message in messages[start:end]]
        return [*kept[: self.at], instead, *kept[self.at :]]

    def place_of(self, length: int) -> int:
        """How many messages the first `length` of the transcript are after it."""
        gone = sum(max(min(end, length) - start, 0) for start, end in self.folded)
        kept = length - gone
        return kept + (1 if self.at < kept else 0)

    def to_json(self) -> dict[str, Any]:
        return {"folded": [list(span) for span in self.folded], "at": self.at}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(folded=tuple((start, end) for start, end in data["folded"]), at=data["at"])


def compaction_of(messages: Sequence[Message], *, keep_turns: int) -> Compaction | None:
    """All unpinned messages before the last `keep_turns` turns (at least one); `None` where none of them is new."""
    pinned = _pinned(messages)
    turns = [index for index, message in enumerate(messages) if message.role == "assistant"]
    if len(turns) <= max(keep_turns, 1):
        return None
    first_kept = turns[-max(keep_turns, 1)]
    old = [index for index in range(first_kept) if index not in pinned]
    if all(is_summary(messages[index]) for index in old):
        return None
    gone = set(old)
    starts = [index for index in old if index - 1 not in gone]
    ends = [index + 1 for index in old if index + 1 not in gone]
    return Compaction(folded=tuple(zip(starts, ends, strict=True)), at=first_kept - len(old))


def is_summary(message: Message) -> bool:
    """Whether a message stands for earlier ones."""
    return message.role == "user" and message.name == STANDS_IN


def summary_message(text: str) -> Message:
    return _standing_in(f"{SUMMARY}\n\n{text.strip()}")


def marker_message(folded: Iterable[Message]) -> Message:
    """What stands for messages that nobody summarized. An earlier summary among them stays as it was."""
    earlier = [body for message in folded if is_summary(message) and (body := summary_in(message))]
    if not earlier:
        return _standing_in(LEFT_OUT)
    return _standing_in("\n\n".join((SUMMARY, *earlier, LEFT_OUT)))


def summary_in(message: Message) -> str:
    """What a message that stands for earlier ones says of them, without its marks."""
    return message.text.replace(SUMMARY, "").replace(LEFT_OUT, "").strip()


def _standing_in(text: str) -> Message:
    return replace(Message.of("user", text), name=STANDS_IN)


def _pinned(messages: Sequence[Message]) -> set[int]:
    asked = [index for index, message in enumerate(messages) if message.role == "user" and not is_summary(message)]
    system = {index for index, message in enumerate(messages) if message.role == "system"}
    return system | set(asked[:1]) | set(asked[-1:])
