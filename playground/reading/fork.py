"""The messages that a fork goes on from, as boxes that open to be edited."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llmcore.context.estimator import Estimator
from llmcore.messages import Message, Part
from llmcore.prompts.assembly import Segment, Source
from llmcore.prompts.layout import SOURCE_OF_ROLE
from playground.reading.boxes import byte_size
from playground.reading.panels.messages import PREVIEW_CHARS
from playground.reading.pictures import PictureView, picture_view
from playground.reading.plan import read_estimator
from playground.services.fork_run import ForkPoint

Typed = Mapping[tuple[str, int, int], str]


@dataclass(frozen=True, kw_only=True, slots=True)
class EditableText:
    """A text area: `name` in the form, what it says now, and what it is called."""

    name: str
    label: str
    value: str
    edited: bool = False
    code: bool = False

    @property
    def rows(self) -> int:
        return max(3, min(14, self.value.count("\n") + len(self.value) // 90 + 1))


@dataclass(frozen=True, kw_only=True, slots=True)
class EditableMessage:
    """One message of the transcript. `texts` are there only where it is open; `kept` names what can't be edited,
    beside the pictures."""

    index: int
    message: Message
    source: Source
    is_open: bool = False
    is_chosen: bool = False
    failed: bool = False
    errors: tuple[str, ...] = ()
    texts: tuple[EditableText, ...] = ()
    kept: tuple[str, ...] = ()
    pictures: tuple[PictureView, ...] = ()
    tokens: int = 0

    @property
    def number(self) -> int:
        return self.index + 1

    @property
    def role(self) -> str:
        return f"{self.message.role} · {self.message.name}" if self.message.name else self.message.role

    @property
    def preview(self) -> str:
        said = self.message.text.lstrip()[: 2 * PREVIEW_CHARS]
        calls = ", ".join(f"calls {call.name}" for call in self.message.tool_calls)
        return " ".join(said.split())[:PREVIEW_CHARS] or calls or "(empty)"

    @property
    def size(self) -> int:
        return sum(byte_size(part.text) for part in self.message.parts)

    @property
    def edited(self) -> bool:
        return any(text.edited for text in self.texts) or self.failed != self.message.is_error

    @property
    def is_result(self) -> bool:
        return self.message.role == "tool"


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageReader:
    """Reads the messages of `point` as they are, or as they were `typed`."""

    point: ForkPoint
    typed: Typed = field(default_factory=dict)
    failed: Mapping[int, bool] = field(default_factory=dict)
    errors: Mapping[int, list[str]] = field(default_factory=dict)

    def all(self) -> list[EditableMessage]:
        """All of them; open are the chosen one and those that a person has something to do with."""
        touched = {message for _, message, _ in self.typed} | set(self.errors)
        chosen = self.point.chosen
        count = len(self.point.fork.state.messages)
        return [self.one(index, is_open=index in touched or index == chosen) for index in range(count)]

    def one(self, index: int, *, is_open: bool = True) -> EditableMessage:
        message = self.point.fork.state.messages[index]
        segments = [s for s in self.point.fork.segments if s["message"] == index]
        sources = [Segment.from_json(segment).source for segment in segments]
        return EditableMessage(
            index=index,
            message=message,
            source=sources[0] if sources else SOURCE_OF_ROLE[message.role],
            is_open=is_open,
            is_chosen=index == self.point.chosen,
            failed=self.failed.get(index, message.is_error),
            errors=tuple(self.errors.get(index, ())),
            texts=self._texts(index, message) if is_open else (),
            kept=tuple(kept_parts(message.parts)),
            pictures=tuple(self._pictures(message, segments)) if is_open else (),
            tokens=self._estimator.message(message),
        )

    def _pictures(self, message: Message, segments: Sequence[Mapping[str, Any]]) -> Iterator[PictureView]:
        labels = {segment["part"]: segment["label"] for segment in segments}
        for number, part in enumerate(message.parts):
            if part.kind == "image":
                name = labels.get(number) or "Picture"
                if view := picture_view(self.point.run, message.digest, number, part, name):
                    yield view

    @property
    def _estimator(self) -> Estimator:
        return read_estimator(self.point.run)

    def _texts(self, index: int, message: Message) -> tuple[EditableText, ...]:
        parts = [(number, part) for number, part in enumerate(message.parts) if part.kind == "text"]
        found = [
            self._text("text", index, number, part.text, label=f"Text {place}" if len(parts) > 1 else "Text")
            for place, (number, part) in enumerate(parts, start=1)
        ]
        for number, call in enumerate(message.tool_calls):
            given = (
                call.arguments_raw
                if call.arguments is None
                else json.dumps(call.arguments, ensure_ascii=False, indent=2)
            )
            found.append(self._text("call", index, number, given or "", label=f"Arguments of {call.name}", code=True))
        return tuple(found)

    def _text(
        self, kind: str, index: int, place: int, original: str, *, label: str, code: bool = False
    ) -> EditableText:
        value = self.typed.get((kind, index, place), original)
        return EditableText(
            name=f"{kind}-{index}-{place}", label=label, value=value, edited=value != original, code=code
        )


def kept_parts(parts: tuple[Part, ...]) -> list[str]:
    """What a message holds beside its texts."""
    names = {"thinking": "thinking", "image": "a picture", "provider": "a block of the provider"}
    return list(dict.fromkeys(names[part.kind] for part in parts if part.kind != "text"))
