"""Finds a text anywhere in one run: in its messages, answers, thinking, arguments, results and errors.

It reads what the step's tabs show, from the database as it is now: what was deleted is not found, and nothing has to be
kept in an index. Time is bounded by going on where it stopped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from llmcore.messages import JSON
from llmcore.trace import StepKind
from playground.models import Run, RunContent, RunStep
from playground.reading.lines import Line, Round
from playground.reading.needle import Excerpt, Needle
from playground.reading.step_rows import StepRow, load_rows
from playground.reading.steps import read_rounds

MAX_HITS = 50
BUDGET_S = 1.5
# So many contents, or bytes of them, are in memory at a time.
BATCH = 100
BATCH_BYTES = 4_000_000
ENDS = (StepKind.RESPONSE, StepKind.TOOL_RESULT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a text can stand: a tab of a line. Of a stored content `digest` names it and `part` says what of it."""

    line: Line
    sequence: int
    tab: str
    digest: str = ""
    part: str = ""
    text: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """A place in which the text was found."""

    line: Line
    tab: str
    excerpt: Excerpt


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """The hits in the order of the steps; `go_on` is the step to go on after where not all of the run was looked at."""

    hits: list[Hit]
    go_on: int | None = None
    round: int = 0

    @property
    def goes_on_by_itself(self) -> bool:
        """Where only the time was over: each request is short, and the search complete all the same."""
        return len(self.hits) < MAX_HITS


def search_run(run: Run, needle: Needle, *, after: int = 0, budget_s: float = BUDGET_S) -> Found:
    """What is found in the steps after `after`, until there are `MAX_HITS` or the time is over."""
    stop_at = time.monotonic() + budget_s
    rows = load_rows(RunStep.objects.filter(run=run))
    places = (place for place in places_of(read_rounds(run, rows), rows) if place.sequence > after)
    hits: dict[tuple[int, str], Hit] = {}
    done = after
    for place, text in with_texts(run, places):
        # Whole steps only, so that it can be gone on after one.
        is_full = len(hits) >= MAX_HITS or time.monotonic() > stop_at
        if is_full and place.sequence > done > after:
            return Found(hits=list(hits.values()), go_on=done, round=place.line.round)
        done = place.sequence
        key = (place.line.sequence, place.tab)
        if (excerpt := needle.look(text)) and (key not in hits or hits[key].excerpt.count < excerpt.count):
            hits[key] = Hit(line=place.line, tab=place.tab, excerpt=excerpt)
    return Found(hits=list(hits.values()))


def places_of(rounds: Iterable[Round], rows: Iterable[StepRow]) -> Iterator[Place]:
    """Everything that can be read in the steps, each message where it came up first."""
    lines = {sequence: line for of in rounds for line in of.lines for sequence in line.steps}
    seen: set[str] = set()
    for row in rows:
        if (line := lines.get(row.sequence)) is None:
            continue
        for place in places_of_step(row, line):
            if place.digest and place.part != "json":
                key = f"{place.digest} {place.part}"
                # A message is in all requests after the one that brought it.
                if (place.digest in seen and place.part == "message") or key in seen:
                    continue
                seen.update((key, place.digest))
            yield place


def places_of_step(row: StepRow, line: Line) -> Iterator[Place]:
    data = row.data

    def place(tab: str, digest: Any = "", part: str = "json", text: str = "") -> Place:
        return Place(line=line, sequence=row.sequence, tab=tab, digest=str(digest or ""), part=part, text=text)

    match row.kind:
        case StepKind.REQUEST | StepKind.ASSEMBLED:
            yield from (place("messages", digest, "message") for digest in data.get("added") or ())
            yield place("tools", data.get("tools"), "tools")
        case StepKind.RESPONSE:
            yield place("response", data.get("message"), "text")
            yield place("thinking", data.get("message"), "thinking")
            yield place("response", text=texts_in(data.get("error")))
        case StepKind.TOOL_CALL:
            yield place("arguments", data.get("arguments"))
            yield place("result", text=str(data.get("name") or ""))
        case StepKind.TOOL_RESULT:
            yield place("result", data.get("message"), "text")
            yield place("result", data.get("full"))
            yield place("result", data.get("artifacts"))
            yield place("traceback", data.get("traceback"))
        case StepKind.RETRY | StepKind.ERROR:
            yield place("error", data.get("traceback"))
            yield place("error", text=texts_in(data))
        case StepKind.COMPACTION:
            yield place("summary", data.get("message"), "text")
            yield place("before", data.get("record"))
            yield place("summary", text=texts_in(data.get("error")))
        case StepKind.CONTEXT:
            # Nothing but figures.
            pass
        case StepKind.VALIDATION:
            yield place("validation", data.get("objections"))
        case _:
            yield place("data", text=texts_in(data))


def with_texts(run: Run, places: Iterable[Place]) -> Iterator[tuple[Place, str]]:
    """The places that have a text, with it, loaded a bounded number of bytes at a time."""
    sizes = dict(RunContent.objects.filter(run=run).values_list("digest", "size"))
    places = iter(places)
    while batch := list(islice(places, BATCH)):
        start = 0
        while start < len(batch):
            end, size = start, 0
            while end < len(batch) and (end == start or size < BATCH_BYTES):
                size += sizes.get(batch[end].digest, 0)
                end += 1
            yield from texts_of(run, batch[start:end])
            start = end


def texts_of(run: Run, places: list[Place]) -> Iterator[tuple[Place, str]]:
    digests = {place.digest for place in places if place.digest}
    contents = dict(RunContent.objects.filter(run=run, digest__in=digests).values_list("digest", "value"))
    for place in places:
        if text := place.text or text_of(contents.get(place.digest), place.part):
            yield place, text


def text_of(value: JSON, part: str) -> str:
    """What of a content can be read there: of a message its texts, of JSON its spelling."""
    if value is None:
        return ""
    if part in ("message", "text", "thinking"):
        kinds = ("text", "thinking") if part == "message" else (part,)
        texts = [str(item.get("text") or "") for item in value.get("parts") or () if item.get("kind", "text") in kinds]
        if part != "thinking" and value.get("tool_calls"):
            texts.append(json.dumps([call.get("arguments") for call in value["tool_calls"]], ensure_ascii=False))
        return "\n".join(texts)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def texts_in(value: JSON) -> str:
    """All texts of a step's data, which is small."""
    if isinstance(value, Mapping):
        return "\n".join(filter(None, (texts_in(item) for item in value.values())))
    if isinstance(value, list):
        return "\n".join(filter(None, map(texts_in, value)))
    return value if isinstance(value, str) else ""
