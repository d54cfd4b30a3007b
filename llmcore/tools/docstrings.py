"""Reads what a docstring in Google's style says about a function and its parameters."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field

SECTION = re.compile(
    r"^(Args|Arguments|Parameters|Returns?|Yields?|Raises|Examples?|Notes?|Attributes|Warnings?|See Also):\s*$"
)
PARAMETER_SECTIONS = frozenset({"Args", "Arguments", "Parameters", "Attributes"})
PARAMETER = re.compile(r"^\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Docstring:
    """A docstring taken apart: the text before the first section, and a text for each described parameter."""

    text: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


def read_docstring(docstring: str | None) -> Docstring:
    lines = inspect.cleandoc(docstring or "").splitlines()
    sections: dict[str, list[str]] = {"": []}
    current = sections[""]
    for line in lines:
        if heading := SECTION.match(line):
            current = sections.setdefault(heading[1], [])
        else:
            current.append(line)
    described = (line for name in PARAMETER_SECTIONS for line in sections.get(name, ()))
    return Docstring(text="\n".join(sections[""]).strip(), parameters=_parameters(list(described)))


def _parameters(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    body = inspect.cleandoc("\n" + "\n".join(lines)).splitlines()
    current = ""
    for line in body:
        if (match := PARAMETER.match(line)) is not None:
            current = match["name"]
            found[current] = match["text"].strip()
        elif current and line.strip():
            # An indented line goes on with the description above it.
            found[current] = f"{found[current]} {line.strip()}".strip()
    return found
