"""What a notice is: a finding about a request that isn't sent yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llmcore.findings.finding import Severity


@dataclass(frozen=True, kw_only=True, slots=True)
class Fix:
    """What to change, and what it is called: a stored row by its number, or a field of the run's form by its name."""

    kind: Literal["configuration", "skill", "snippet", "field"]
    label: str
    id: int | None = None
    field: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """A problem of a request before it is sent. `title` is a clause, `detail` the sentences that explain it, both with
    `code` in backticks; `impact` is what it costs, in a few words."""

    id: str
    severity: Severity
    title: str
    detail: str = ""
    impact: str = ""
    fix: Fix | None = None


def configuration(id: int | None, label: str = "Edit configuration") -> Fix | None:
    return None if id is None else Fix(kind="configuration", label=label, id=id)


def field(name: str, label: str) -> Fix:
    return Fix(kind="field", label=label, field=name)
