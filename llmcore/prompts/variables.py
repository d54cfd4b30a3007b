"""Variables of prompts: `{{name}}` in a text, where a run puts a value.

A name has letters, digits and underscores and begins with no digit. `\\{{name}}` stands for `{{name}}` itself. Anything
else between braces is text like any other. Values are put in once: what a value says is never looked through again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from llmcore.errors import ConfigurationError

LONGEST_NAME = 64
# One value may stand in a text many times; what comes of it is bounded before it is made.
LONGEST_FILLED = 10_000_000
# A person enters each value, in a field of its own.
MOST_VARIABLES = 200

_NAME = rf"[A-Za-z_][A-Za-z0-9_]{{0,{LONGEST_NAME - 1}}}"
_VARIABLE = re.compile(rf"(\\?)\{{\{{[ \t]*({_NAME})[ \t]*\}}\}}")
_WHOLE_NAME = re.compile(_NAME)


@dataclass(frozen=True, slots=True)
class ValueSpan:
    """Characters `start` to `end` of a filled text that are the value of the variable `name`."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Filled:
    """A text with its values put in. `names` are those of all its variables, each once and in order; `missing` those
    without a value, which stand in the text as they were typed."""

    text: str
    values: tuple[ValueSpan, ...] = ()
    names: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class VariableUse:
    """A variable of an assembled prompt, and the labels of the sources in which it stands."""

    name: str
    places: tuple[str, ...]
    resolved: bool


class UnresolvedVariables(ConfigurationError):
    """A prompt has variables without a value."""

    def __init__(self, uses: Iterable[VariableUse]) -> None:
        self.uses = tuple(uses)
        super().__init__(" ".join(sentence(use) for use in self.uses))


def sentence(use: VariableUse) -> str:
    """What is wrong with a variable that has no value, and where it stands."""
    return f"The variable “{use.name}” has no value; it stands in: {', '.join(use.places)}."


def is_name(text: str) -> bool:
    return _WHOLE_NAME.fullmatch(text) is not None


def fill(text: str, values: Mapping[str, str]) -> Filled:
    """`text` with `values` in the places of its variables, in one pass; ConfigurationError where it grows too long."""
    if "{{" not in text:
        return Filled(text=text)
    pieces: list[str] = []
    spans: list[ValueSpan] = []
    names: dict[str, bool] = {}
    end = length = 0
    for match in _VARIABLE.finditer(text):
        escaped, name = match[1], match[2]
        pieces.append(text[end : match.start()])
        length += len(pieces[-1])
        end = match.end()
        value = match[0][1:] if escaped else values.get(name, match[0])
        if not escaped:
            names[name] = name in values
        length += len(value)
        if length > LONGEST_FILLED:
            raise ConfigurationError(
                f"With the values of its variables a text would be longer than {LONGEST_FILLED:,} characters. Shorten "
                f"the value of “{name}”, or use it less often."
            )
        if not escaped and name in values:
            spans.append(ValueSpan(name, length - len(value), length))
        pieces.append(value)
    pieces.append(text[end:])
    return Filled(
        text="".join(pieces),
        values=tuple(spans),
        names=tuple(names),
        missing=tuple(name for name, known in names.items() if not known),
    )


class VariableUses:
    """Notes which variables stand where, while a prompt is assembled."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self._places: dict[str, dict[str, None]] = {}

    def fill(self, text: str, place: str) -> Filled:
        """The text, filled; `place` is what people call it. ConfigurationError where there are too many variables."""
        filled = fill(text, self._values)
        for name in filled.names:
            self._places.setdefault(name, {})[place] = None
        if len(self._places) > MOST_VARIABLES:
            raise ConfigurationError(
                f"The prompt has more than {MOST_VARIABLES} variables. Write “\\{{{{name}}}}” where the text "
                "“{{name}}” itself is meant."
            )
        return filled

    def all(self) -> tuple[VariableUse, ...]:
        return tuple(
            VariableUse(name=name, places=tuple(places), resolved=name in self._values)
            for name, places in self._places.items()
        )

    def unused(self) -> tuple[str, ...]:
        """The names of the values that stand nowhere."""
        return tuple(name for name in self._values if name not in self._places)
