"""Takes inline thinking out of an answer: models that write it between tags before the answer itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

Kind = Literal["text", "thinking"]
Piece = tuple[Kind, str]

# Opening tag -> closing tag, for the families of models that write them.
TAGS = {"<think>": "</think>", "[THINK]": "[/THINK]", "<mm:think>": "</mm:think>"}


class ThinkSplitter:
    """Splits a text that arrives in pieces into thinking and answer.

    Tags count only at the very start: the same characters further on belong to the answer. "prefilled" means that the
    prompt's template has already written the opening tag, so the text begins as thinking. White space around a tag is
    the tag's.
    """

    def __init__(self, mode: Literal["tags", "prefilled"]) -> None:
        self.closed = False
        self.prefilled = mode == "prefilled"
        self._state: Literal["start", "thinking", "gap", "answer"] = "start"
        self._closing: tuple[str, ...] = tuple(TAGS.values())
        self._held = ""
        self._began = False

    def feed(self, text: str) -> Iterator[Piece]:
        """What can be told of the text so far; a piece that may be the beginning of a tag is held back."""
        self._held += text
        if self._state == "start":
            self._open()
        if self._state == "thinking":
            yield from self._think()
        if self._state == "gap" and (rest := self._held.lstrip()):
            self._held, self._state = rest, "answer"
        if self._state == "answer" and self._held:
            yield "text", self._held
            self._held = ""

    def finish(self) -> Iterator[Piece]:
        """What was held back, now that nothing follows."""
        held, self._held = self._held, ""
        if self._state == "thinking" and held.rstrip():
            yield "thinking", held.rstrip() if self._began else held.strip()
        elif self._state == "start" and held:
            yield ("thinking" if self.prefilled else "text"), held

    def _open(self) -> None:
        text = self._held.lstrip()
        for opening, closing in TAGS.items():
            if text.startswith(opening):
                self._state, self._closing = "thinking", (closing,)
                self._held = text[len(opening) :]
                return
        if any(opening.startswith(text) for opening in TAGS):
            return
        self._state = "thinking" if self.prefilled else "answer"

    def _think(self) -> Iterator[Piece]:
        found = min(((at, tag) for tag in self._closing if (at := self._held.find(tag)) >= 0), default=None)
        if found:
            at, tag = found
            thought, self._held = self._held[:at].rstrip(), self._held[at + len(tag) :]
            self._state, self.closed = "gap", True
        else:
            keep = self._undecided()
            thought, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        if not self._began:
            thought = thought.lstrip()
        if thought:
            self._began = True
            yield "thinking", thought

    def _undecided(self) -> int:
        """How many characters at the end may belong to a closing tag, or be white space before one."""
        text = self._held
        tail = max(
            (size for tag in self._closing for size in range(1, len(tag)) if text.endswith(tag[:size])), default=0
        )
        stable = text[: len(text) - tail]
        return len(text) - len(stable.rstrip())
