"""The pieces of an answer in the order in which they came, and that order restored for the wire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from llmcore.messages import JSON, Message, Part, ToolCall
from llmcore.providers.call_drafts import CallDraft
from llmcore.providers.json_text import mend_surrogates, mend_values

Kind = Literal["text", "thinking", "provider"]
# The name under which a call remembers after how many parts of its message it stood.
AFTER = "after"


class Block:
    """A part of an answer while it grows. `extra` is what the provider wants back with it."""

    __slots__ = ("extra", "kind", "pieces")

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.pieces: list[str] = []
        self.extra: JSON = None

    def part(self, text: str) -> Part:
        extra = None if self.extra is None else mend_values(self.extra)
        return Part(kind=self.kind, text=text, extra=extra)


class Blocks:
    """Finds the block that a piece belongs to: by kind and key.

    Wires whose answers are lists of blocks have a key for each. Those with one field for the text and one for the
    thinking have none: their thinking stands before the text, whatever came first.
    """

    def __init__(self) -> None:
        self._order: list[Block | CallDraft] = []
        self._by_key: dict[tuple[Kind, JSON], Block] = {}

    def __len__(self) -> int:
        return len(self._order)

    def get(self, kind: Kind, key: int | str | None = None) -> Block:
        block = self._by_key.get((kind, key))
        if block is None:
            block = self._by_key[kind, key] = Block(kind)
            self._order.insert(0 if key is None and kind == "thinking" else len(self._order), block)
        return block

    def place(self, draft: CallDraft) -> None:
        """Keep the place of a call among the blocks."""
        self._order.append(draft)

    def parts(self) -> tuple[Part, ...]:
        """The parts that have something in them. Each placed call then knows after how many of them it stood, unless
        that is behind them all."""
        parts: list[Part] = []
        placed: list[tuple[CallDraft, int]] = []
        for item in self._order:
            if isinstance(item, CallDraft):
                placed.append((item, len(parts)))
            elif (text := mend_surrogates("".join(item.pieces))) or item.extra is not None:
                parts.append(item.part(text))
        for draft, after in placed:
            if after < len(parts):
                draft.extra = {**(draft.extra or {}), AFTER: after}
        return tuple(parts)


def in_order(message: Message) -> Iterator[Part | ToolCall]:
    """The parts and calls of an assistant message in the order in which the provider sent them."""
    calls = list(message.tool_calls)
    for index, part in enumerate(message.parts):
        while calls and place_of(calls[0]) <= index:
            yield calls.pop(0)
        yield part
    yield from calls


def place_of(call: ToolCall) -> float:
    after = call.extra.get(AFTER) if isinstance(call.extra, dict) else None
    return after if isinstance(after, int) else float("inf")


def extra_of(item: Part | ToolCall, wire: str) -> Mapping[str, JSON]:
    """What the wire format of this name wants back with a part or call: nothing where another one made it."""
    extra = item.extra
    return extra if isinstance(extra, dict) and extra.get("wire") == wire else {}
