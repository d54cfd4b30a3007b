"""What a run waits for within a round, in the words of the pages: a permit for a call, or a summary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from llmcore.trace import StepKind
from playground.models import RunPartial
from playground.numbers import duration, ordinal, plural
from playground.reading.plan import Plan
from playground.reading.step_rows import StepRow


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """The wait of a call that goes on: what is said of it, and what to know about it. `permit` says that it stands in
    line for one."""

    round: int
    text: str
    hint: str
    permit: bool = True


def read_waiting_call(partial: RunPartial | None, plan: Plan) -> Waiting | None:
    """`None` where no call waits, and no summary is being written."""
    if partial is None or not partial.waiting:
        return None
    place = partial.waiting
    summary = place.get("summary")
    if summary and not is_in_line(place):
        text = f"{summary_text(summary)} is being written by {writer(summary)}"
        hint = "The window fills up, so the oldest messages give way to it. Then the run goes on by itself."
        return Waiting(round=partial.round, text=text, hint=hint, permit=False)
    what = f"{summary_text(summary)} waits" if summary else "Waiting"
    if place.get("away"):
        text = f"{what} for a permit: nobody can say whose turn it is"
        hint = "Where the calls in flight are counted, in Redis or the database, can't be reached. No call goes out."
    elif place.get("recounting"):
        text = f"{what} for a permit: the calls in flight are being counted again"
        hint = "Redis was started anew. This takes a few seconds."
    else:
        text = f"{what} for a permit: {place_text(place, plan)}"
        whole = "This site" if place.get("of_site") else "The provider"
        hint = f"{whole} takes only so many calls at once. The run goes on by itself when it is its turn."
    return Waiting(round=partial.round, text=text, hint=hint)


def is_in_line(place: Mapping[str, Any]) -> bool:
    return "provider" in place


def summary_text(summary: Mapping[str, Any]) -> str:
    """ "A summary of 12 messages"."""
    return f"A summary of {plural(summary['messages'], 'message')}"


def writer(summary: Mapping[str, Any]) -> str:
    """The summarizer's configuration with its model, or the run's own model."""
    return f"“{summary['summarizer']}”, {summary['model']}" if summary["summarizer"] else str(summary["model"])


def place_text(place: Mapping[str, Any], plan: Plan) -> str:
    """ "3rd of 5 for OpenAI"."""
    whom = "all providers" if place.get("of_site") else plan.name_of_provider(str(place.get("provider") or ""))
    return f"{standing(place)} for {whom}"


def in_line(place: Mapping[str, Any]) -> str:
    """ "Waiting for a permit, 3rd of 5", where there is no room for more."""
    if place.get("summary") and not is_in_line(place):
        return f"{summary_text(place['summary'])} is being written"
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
