"""Builds the items of an answer of OpenAI Responses from the events of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from llmcore.messages import JSON, Delta

# Which text of an item a delta extends: the list it stands in, the type of the entry, the name of its text.
TEXTS: Mapping[str, tuple[str, str, str]] = {
    "response.output_text.delta": ("content", "output_text", "text"),
    "response.refusal.delta": ("content", "refusal", "refusal"),
    "response.reasoning_summary_text.delta": ("summary", "summary_text", "text"),
    "response.reasoning_text.delta": ("content", "reasoning_text", "text"),
}
KIND_OF_TEXT: Mapping[str, Literal["text", "thinking"]] = {
    "output_text": "text",
    "summary_text": "thinking",
    "reasoning_text": "thinking",
}
# The type of item that an event brings arguments for, and the field of the item that they stand in.
ARGUMENTS: Mapping[str, tuple[str, str]] = {
    "response.function_call_arguments.delta": ("function_call", "arguments"),
    "response.custom_tool_call_input.delta": ("custom_tool_call", "input"),
}
DONE: Mapping[str, str] = {
    "response.function_call_arguments.done": "function_call",
    "response.custom_tool_call_input.done": "custom_tool_call",
}
ITEM_OF_TEXT = {"output_text": "message", "refusal": "message"}
MAX_ITEMS = 5_000

Text = tuple[str, str, str, int]


class GrowingItem:
    """An item whose texts and arguments still arrive. What `done` says of it counts more than the pieces."""

    def __init__(self) -> None:
        self.frame: dict[str, JSON] = {}
        self.is_done = False
        self._texts: dict[Text, list[str]] = {}
        self._arguments: list[str] = []
        self._field = "arguments"

    def extend(self, place: Text, piece: str) -> None:
        self._texts.setdefault(place, []).append(piece)
        self.frame.setdefault("type", ITEM_OF_TEXT.get(place[1], "reasoning"))

    def extend_arguments(self, piece: str, kind: str, field: str) -> None:
        self._arguments.append(piece)
        self._field = field
        self.frame.setdefault("type", kind)

    def item(self) -> dict[str, JSON]:
        if self.is_done:
            return self.frame
        item = dict(self.frame)
        lists: dict[str, list[JSON]] = {}
        for (field, kind, name, _), pieces in sorted(self._texts.items()):
            lists.setdefault(field, []).append({"type": kind, name: "".join(pieces)})
        item.update(lists)
        if self._arguments:
            item[self._field] = "".join(self._arguments)
        return item


class StreamedItems:
    """The items by their place in the answer."""

    def __init__(self) -> None:
        self._items: dict[int, GrowingItem] = {}
        self._by_id: dict[str, int] = {}

    def take(self, event: Mapping[str, JSON]) -> Iterable[Delta]:
        kind = event.get("type")
        if not isinstance(kind, str) or (growing := self._growing(self._place(event))) is None:
            return ()
        if kind in ("response.output_item.added", "response.output_item.done"):
            if isinstance(item := event.get("item"), dict):
                growing.frame = dict(item)
                growing.is_done = kind.endswith(".done")
        elif isinstance(piece := event.get("delta"), str) and piece:
            return self._extend(growing, kind, event, piece)
        elif kind in DONE:
            growing.frame.setdefault("type", DONE[kind])
            for name in ("name", "arguments", "input"):
                if event.get(name) is not None:
                    growing.frame[name] = event[name]
        return ()

    def _extend(self, growing: GrowingItem, kind: str, event: Mapping[str, JSON], piece: str) -> Iterable[Delta]:
        if kind in ARGUMENTS:
            growing.extend_arguments(piece, *ARGUMENTS[kind])
            return (Delta(kind="tool_call", text=piece),)
        if kind not in TEXTS:
            return ()
        field, entry, name = TEXTS[kind]
        part = event.get("summary_index", event.get("content_index"))
        growing.extend((field, entry, name, part if isinstance(part, int) else 0), piece)
        return (Delta(kind=KIND_OF_TEXT[entry], text=piece),) if entry in KIND_OF_TEXT else ()

    def complete(self, output: JSON) -> None:
        """The whole list as the end of the answer gives it; it counts where a stream left an item unfinished."""
        for index, item in enumerate(output if isinstance(output, list) else ()):
            growing = self._growing(index) if isinstance(item, dict) else None
            if growing is not None and not growing.is_done:
                growing.frame, growing.is_done = dict(item), True

    def items(self) -> list[dict[str, JSON]]:
        return [self._items[index].item() for index in sorted(self._items)]

    def _place(self, event: Mapping[str, JSON]) -> JSON:
        """The index of the item that an event is about; where it says none, that of the item with this id."""
        index, item = event.get("output_index"), event.get("item")
        identity = item.get("id") if isinstance(item, dict) else event.get("item_id")
        if not isinstance(identity, str):
            return index
        if isinstance(index, int):
            self._by_id[identity] = index
        if index is not None:
            return index
        if identity not in self._by_id and len(self._items) <= MAX_ITEMS:
            self._by_id[identity] = max(self._items, default=-1) + 1
        return self._by_id.get(identity)

    def _growing(self, index: JSON) -> GrowingItem | None:
        if isinstance(index, bool) or not isinstance(index, int):
            return None
        if index not in self._items and len(self._items) > MAX_ITEMS:
            return None
        return self._items.setdefault(index, GrowingItem())


def texts_of(entries: JSON, kind: str, name: str) -> Sequence[str]:
    """The texts of the entries of one type."""
    found = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return [text for entry in found if entry.get("type") == kind and isinstance(text := entry.get(name), str) and text]
