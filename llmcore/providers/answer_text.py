"""Reads the text of `{"answer": "…"}` while it is still arriving."""

from __future__ import annotations

import json
import re

BEGINNING = re.compile(r'\s*\{\s*"answer"\s*:\s*"')
COULD_BEGIN = re.compile(r'\s*(\{\s*("(a(n(s(w(e(r("\s*(:\s*)?)?)?)?)?)?)?)?)?)?')
# An escape whose end has not come yet, half of a pair included.
OPEN_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{0,3})?$|\\u[dD][89abAB][0-9a-fA-F]{2}(\\(u[0-9a-fA-F]{0,3})?)?$")
TEXT = re.compile(r'(?:[^"\\]|\\.)*', re.DOTALL)


class AnswerText:
    """Takes the pieces of a JSON text and gives out what can be read of the answer in it."""

    def __init__(self) -> None:
        self._held = ""
        self._state = "beginning"

    def feed(self, piece: str) -> str | None:
        """The readable text that `piece` adds; `None` where the JSON is something else than an answer."""
        if self._state == "other":
            return None
        self._held += piece
        if self._state == "beginning" and not self._begin():
            return None if self._state == "other" else ""
        if self._state == "over":
            return ""
        return self._read()

    def _begin(self) -> bool:
        if begun := BEGINNING.match(self._held):
            self._held, self._state = self._held[begun.end() :], "answer"
            return True
        if not COULD_BEGIN.fullmatch(self._held):
            self._state = "other"
        return False

    def _read(self) -> str:
        open_escape = OPEN_ESCAPE.search(self._held)
        whole = (
            self._held[: open_escape.start()] if open_escape and not _escaped(self._held, open_escape) else self._held
        )
        found = TEXT.match(whole)
        text = found[0] if found else ""
        if len(text) < len(whole):
            self._state = "over"
        self._held = self._held[len(text) :]
        try:
            return str(json.loads(f'"{text}"', strict=False))
        except ValueError:
            return text


def _escaped(text: str, found: re.Match[str]) -> bool:
    """Whether the backslash that was found is itself escaped by the one before it."""
    before = text[: found.start()]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1
