"""What a finding is, and the words that all of them share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self

_LONGEST_QUOTE = 200
_LONGEST_CODE = 80


class Severity(StrEnum):
    """How much a finding matters: the result is wrong or missing, something was lost or wasted, good to know."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A problem found in a run, with the step that shows it.

    `title` is a clause, `detail` the sentences that explain it; both may hold `code` in backticks. `impact` is what
    it cost, in a few words. `sequence` is that of a step with a line of its own, `tab` the tab of its detail to open,
    `where` names the step for people.
    """

    id: str
    severity: Severity
    title: str
    detail: str = ""
    impact: str = ""
    sequence: int | None = None
    tab: str | None = None
    where: str = ""

    @property
    def text(self) -> str:
        """All of it on one line."""
        impact = f" ({self.impact})" if self.impact else ""
        return f"{self.title}: {self.detail}{impact}" if self.detail else f"{self.title}{impact}"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "severity": self.severity.value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**{**data, "severity": Severity(data["severity"])})


def code(text: str) -> str:
    """A name or value as a span of code; it may come from a model, so it is bounded and can't end the span."""
    return f"`{bounded(text, _LONGEST_CODE) or ' '}`"


def quoted(text: str) -> str:
    """What a tool or provider said, bounded, as a sentence."""
    sentence = bounded(text, _LONGEST_QUOTE)
    return sentence if not sentence or sentence[-1] in ".!?…" else f"{sentence}."


def bounded(text: str, length: int) -> str:
    line = " ".join(text[: 4 * length].replace("`", "'").split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.2f} s"


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %"


def duration(milliseconds: float) -> str:
    """In the two largest units, for what takes minutes or days."""
    whole = round(milliseconds / 1000)
    for size, unit, lesser_size, lesser in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // lesser_size} {lesser}"
    return seconds(milliseconds)


def tokens(count: int) -> str:
    return f"{count:,} token" if count == 1 else f"{count:,} tokens"


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def rounds_named(numbers: list[int]) -> str:
    """`round 3`, `rounds 1, 2 and 4`; of many the first few."""
    if len(numbers) == 1:
        return f"round {numbers[0]}"
    shown = [str(number) for number in numbers[:4]]
    last = f"{len(numbers) - 4} more" if len(numbers) > 4 else shown.pop()
    return f"rounds {', '.join(shown)} and {last}"
