"""What differs between two versions of a stored piece of a prompt, field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from llmcore.messages import JSON
from llmcore.tools.workspace.differences import unified

# A page shows this much of a difference; the whole texts stand beside it.
MAX_LINES = 400
# Kept with a version because a use of it needs them, but nothing that a person edits.
DERIVED = frozenset({"sha256"})
_MARKS: dict[str, Literal["add", "del", "at"]] = {"+": "add", "-": "del", "@": "at"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedLine:
    """A line of a difference: added, deleted, the place of what follows, or unchanged between them."""

    kind: Literal["add", "del", "at", "same"]
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldChange:
    """A field that two versions have differently, each as text."""

    name: str
    before: str
    after: str

    @property
    def label(self) -> str:
        return self.name.replace("_", " ")

    @property
    def is_text(self) -> bool:
        """Whether it reads better as lines than side by side."""
        return "\n" in self.before + self.after or max(len(self.before), len(self.after)) > 80

    @property
    def lines(self) -> list[ChangedLine]:
        lines = unified(self.before + "\n", self.after + "\n", self.name).splitlines()[2:]
        shown = [ChangedLine(kind=_MARKS.get(line[:1], "same"), text=line) for line in lines[:MAX_LINES]]
        if len(lines) > MAX_LINES:
            shown.append(ChangedLine(kind="at", text=f"… {len(lines) - MAX_LINES:,} more lines"))
        return shown


def field_changes(before: Mapping[str, JSON], after: Mapping[str, JSON]) -> list[FieldChange]:
    """The fields of `after` that `before` has otherwise. A field that `before` doesn't know yet has not changed."""
    return [
        FieldChange(name=name, before=as_text(before[name]), after=as_text(value))
        for name, value in after.items()
        if name not in DERIVED and name in before and before[name] != value
    ]


def as_text(value: JSON) -> str:
    """A stored value as a person reads it: a list of names with commas, nothing as a dash."""
    match value:
        case None | "" | []:
            return "–"
        case str():
            return value
        case bool():
            return "yes" if value else "no"
        case list() if all(isinstance(item, str) for item in value):
            return ", ".join(map(str, value))
        case _:
            return json.dumps(value, ensure_ascii=False)
