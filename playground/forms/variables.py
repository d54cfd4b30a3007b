"""The part of the form of a run that asks for the values of its prompt's variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmcore.prompts.variables import VariableUse, is_name

PREFIX = "variable-"
MAX_VALUE_BYTES = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class VariableInput:
    """The field of one variable. `places` are the labels of the texts in which it stands; a `stray` one is a value that
    nothing asks for (any more)."""

    name: str
    value: str
    places: tuple[str, ...] = ()
    stray: bool = False
    error: str = ""

    @property
    def field(self) -> str:
        return f"{PREFIX}{self.name}"


def typed_in(values: Mapping[str, Any]) -> dict[str, str]:
    """The values in what a browser sent, or in the first values of a form; a blank one is none."""
    found = ((name.removeprefix(PREFIX), values[name]) for name in values if name.startswith(PREFIX))
    return {
        name: value.replace("\r\n", "\n").replace("\r", "\n")
        for name, value in found
        if is_name(name) and isinstance(value, str) and value.strip()
    }


def fields_of(values: Mapping[str, str]) -> dict[str, str]:
    """The first values of a form with these values."""
    return {f"{PREFIX}{name}": value for name, value in values.items()}


def inputs_of(
    uses: Sequence[VariableUse] | None, values: Mapping[str, str], errors: Mapping[str, str]
) -> list[VariableInput]:
    """A field for each variable, and one for each value that nothing asks for, so that it isn't lost. `uses` are `None`
    where the prompt can't be assembled yet."""
    asked = {use.name: use.places for use in uses or ()}
    return [
        VariableInput(
            name=name,
            value=values.get(name, ""),
            places=asked.get(name, ()),
            stray=uses is not None and name not in asked,
            error=errors.get(name, ""),
        )
        for name in dict.fromkeys([*asked, *values])
    ]


def overlong(values: Mapping[str, str]) -> list[str]:
    return [name for name, value in values.items() if len(value.encode("utf-8", "surrogatepass")) > MAX_VALUE_BYTES]
