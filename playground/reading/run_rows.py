"""A run as a row of a table: what it was, how it ended, and its tokens and time as bars."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.formats import date_format

from llmcore.runs.outcome import EndReason, RunStatus
from playground.figures import milliseconds
from playground.models import Run
from playground.numbers import SPACE
from playground.reading.searched import NO_SEARCH, Search, shortened
from playground.reading.waiting import in_line

UNFINISHED = {RunStatus.QUEUED, RunStatus.RUNNING}
# So many times the middle value is out of scale.
GIANT = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """A part of a bar."""

    css: str
    value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """Where the bars of a table end, so that its rows can be compared."""

    tokens: float
    ms: float

    @property
    def words(self) -> str:
        return f"Bars end at {compact(self.tokens)} tokens and {brief(self.ms)} (▸ longer)"


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRow:
    """A run, ready to be shown in a table at the moment `now`."""

    run: Run
    now: datetime
    scale: Scale
    search: Search = NO_SEARCH

    @property
    def tags(self) -> list[str]:
        return [tag.name for tag in self.run.tags.all()]

    @property
    def note(self) -> str:
        return shortened(str(getattr(self.run, "note_start", "")))

    @property
    def live(self) -> bool:
        return self.run.status in UNFINISHED

    @property
    def excerpt(self) -> str:
        """Where the searched words are. Else what is waited for, or went wrong, where something is or did; else what of
        the prompt the title doesn't say, else the answer."""
        for name in ("prompt_found", "answer_found"):
            if fragment := self.search.fragment(str(getattr(self.run, name, ""))):
                return fragment
        if (place := getattr(self.run, "permit_place", None)) and self.live:
            return in_line(place)
        if position := getattr(self.run, "queue_position", None):
            return f"Waiting for a free worker, position {position:,}"
        if self.run.reason not in ("", EndReason.COMPLETED) and self.run.detail:
            return shortened(self.run.detail)
        prompt = " ".join(str(getattr(self.run, "prompt_start", "")).split())
        beginning = self.run.title.removesuffix("…").rstrip()
        if not prompt.startswith(beginning):
            return shortened(prompt)
        rest = prompt[len(beginning) :].strip()
        return shortened("…" + rest if rest else str(getattr(self.run, "answer_start", "")))

    @property
    def when(self) -> str:
        age = self.now - self.run.created_at
        if age < timedelta(minutes=1):
            return "just now"
        created, today = timezone.localtime(self.run.created_at), timezone.localtime(self.now)
        time = date_format(created, "H:i")
        if created.date() == today.date():
            return time
        day = "j M" if created.year == today.year else "j M Y"
        return f"{date_format(created, day)}, {time}"

    @property
    def tokens(self) -> int | None:
        return tokens_of(self.run)

    @property
    def tokens_text(self) -> str:
        return "" if self.tokens is None else compact(self.tokens)

    @property
    def tokens_off_scale(self) -> bool:
        return (self.tokens or 0) > self.scale.tokens

    @property
    def token_bar(self) -> list[Piece]:
        cached = self.run.cache_read_input_tokens or 0
        fresh = max((self.run.input_tokens or 0) - cached, 0)
        pieces = [("cached", cached), ("fresh", fresh), ("out", self.run.output_tokens or 0)]
        return filled(pieces, self.scale.tokens)

    @property
    def wall_ms(self) -> float | None:
        return wall_ms_of(self.run, self.now)

    @property
    def time_text(self) -> str:
        return "" if self.wall_ms is None else brief(self.wall_ms)

    @property
    def time_off_scale(self) -> bool:
        return (self.wall_ms or 0) > self.scale.ms

    @property
    def time_bar(self) -> list[Piece]:
        run = self.run
        pieces = [
            ("queue", run.queue_ms or 0.0),
            ("permit", run.permit_ms or 0.0),
            ("model", run.model_ms or 0.0),
            ("ttool", run.tool_ms or 0.0),
            ("approval", run.approval_ms or 0.0),
            ("over", run.overhead_ms or 0.0),
        ]
        return filled(pieces, self.scale.ms)


def run_rows(runs: Iterable[Run], *, now: datetime, scale: Scale | None = None, search: str = "") -> list[RunRow]:
    """The rows of a table; without a `scale` of an earlier look at it, its bars are scaled to these runs."""
    runs = list(runs)
    scale = scale or Scale(
        tokens=end_of_scale([t for run in runs if (t := tokens_of(run))], least=1_000),
        ms=end_of_scale([ms for run in runs if (ms := wall_ms_of(run, now))], least=1_000),
    )
    searched = Search.of(search)
    return [RunRow(run=run, now=now, scale=scale, search=searched) for run in runs]


def tokens_of(run: Run) -> int | None:
    """Prompt and completion; `None` where neither is known."""
    known = [count for count in (run.input_tokens, run.output_tokens) if count is not None]
    return sum(known) if known else None


def wall_ms_of(run: Run, now: datetime) -> float | None:
    if run.status in UNFINISHED:
        return max(milliseconds(now - run.created_at), 0.0)
    return run.wall_ms


def end_of_scale(values: Sequence[float], *, least: float) -> float:
    """A round number that reaches the largest of `values`, unless it is a giant: that must not flatten all other
    bars."""
    if not values:
        return least
    reach = max(min(max(values), GIANT * statistics.median(values)), least)
    magnitude = float(10 ** math.floor(math.log10(reach)))
    return next(step * magnitude for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * magnitude >= reach)


def filled(pieces: Iterable[tuple[str, float]], end: float) -> list[Piece]:
    """The pieces up to the `end` of the scale, and the empty rest of the track."""
    left = end
    kept = []
    for css, value in pieces:
        kept.append(Piece(css=css, value=min(value, left)))
        left -= kept[-1].value
    return [*kept, Piece(css="none", value=left)]


def compact(count: float) -> str:
    """950, 30.3 k, 2.9 M."""
    for unit, factor in (("M", 1_000_000), ("k", 1_000)):
        if count >= factor * 0.99995:
            return f"{count / factor:.1f}".removesuffix(".0") + SPACE + unit
    return f"{count:.0f}"


def brief(ms: float) -> str:
    """0.1 s, 18.4 s, 21 min, 3 h 05 min."""
    if ms < 59_950:
        return f"{ms / 1000:.1f}{SPACE}s"
    minutes = max(round(ms / 60_000), 1)
    return f"{minutes}{SPACE}min" if minutes < 60 else f"{minutes // 60}{SPACE}h {minutes % 60:02}{SPACE}min"
