"""Where a call stands in line for its permit, in the words of the pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from llmcore.trace import StepKind
from playground.models import RunPartial
from playground.numbers import duration, ordinal
from playground.reading.plan import Plan
from playground.reading.step_rows import StepRow


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """The wait of a call that goes on: what is said of it, and what to know about it."""

    round: int
    text: str
    hint: str


def read_waiting_call(partial: RunPartial | None, plan: Plan) -> Waiting | None:
    """`None` where no call waits."""
    if partial is None or not partial.waiting:
        return None
    place = partial.waiting
    if place.get("away"):
        text = "Waiting for a permit: nobody can say whose turn it is"
        hint = "Where the calls in flight are counted, in Redis or the database, can't be reached. No call goes out."
    elif place.get("recounting"):
        text = "Waiting for a permit: the calls in flight are being counted again"
        hint = "Redis was started anew. This takes a few seconds."
    else:
        text = f"Waiting for a permit: {place_text(place, plan)}"
        whole = "This site" if place.get("of_site") else "The provider"
        hint = f"{whole} takes only so many calls at once. The run goes on by itself when it is its turn."
    return Waiting(round=partial.round, text=text, hint=hint)


def place_text(place: Mapping[str, Any], plan: Plan) -> str:
    """ "3rd of 5 for OpenAI"."""
    whom = "all providers" if place.get("of_site") else plan.name_of_provider(str(place.get("provider") or ""))
    return f"{standing(place)} for {whom}"


def in_line(place: Mapping[str, Any]) -> str:
    """ "Waiting for a permit, 3rd of 5", where there is no room for more."""
    return ", ".join(filter(None, ("Waiting for a permit", standing(place))))


def standing(place: Mapping[str, Any]) -> str:
    """ "3rd of 5"; empty where nobody can say."""
    return f"{ordinal(place['position'])} of {place['waiting']}" if place.get("position") else ""


def waits_of(rows: Iterable[StepRow], plan: Plan) -> str:
    """What the steps of a call say of its waits, as a fact; empty where it did not wait."""
    waits = [row for row in rows if row.kind == StepKind.PERMIT]
    if not waits:
        return ""
    first = waits[0].data
    place = f", {place_text(first, plan)} at first" if first.get("position") else ""
    return f"waited `{duration(sum(row.duration_ms for row in waits))}` for a permit{place}"
