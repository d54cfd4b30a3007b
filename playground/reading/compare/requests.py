"""A request of one run against a request of another one, or of the same: how far they begin alike, and what the
provider's cache made of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llmcore.prompts.provenance import Segment
from playground.models import Run
from playground.reading.cache_map import CacheMap, read_cache_map
from playground.reading.cache_words import explained_between
from playground.reading.compare.sides import Side
from playground.reading.sent_requests import Rounds, requests_between, requests_of_round, rounds_of
from playground.reading.step_record import StepRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """The request of round `round` under its letter, the last of `count` in that round. Without a `record` where the
    run has none there."""

    letter: str
    run: Run
    round: int
    rounds: Rounds | None
    record: StepRecord | None = None
    count: int = 0

    @property
    def missing(self) -> str:
        """What there is in its place, in a sentence; empty where there is a request."""
        if self.record is not None:
            return ""
        if self.rounds is None:
            return f"Run {self.run.pk} sent no request."
        first, last = self.rounds.first, self.rounds.last
        if first <= self.round <= last:
            return f"Run {self.run.pk} sent no request in round {self.round:,}."
        there = f"rounds {first:,} to {last:,}" if first < last else f"round {first:,} only"
        return f"Run {self.run.pk} has no round {self.round:,}: it has {there}."


@dataclass(frozen=True, kw_only=True, slots=True)
class Parting:
    """Where two requests part by their digests alone: at message `message` of the later one, counted from 1, with the
    sources that were assembled into it; at the definitions of the tools where it is `None`."""

    message: int | None = None
    segments: tuple[Segment, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestPair:
    """Two requests, B as if it had followed A. Without a `map` where one of them is not there, or both are the same.
    `between` requests of the same run stand between them.
    """

    a: Chosen
    b: Chosen
    map: CacheMap | None = None
    between: int = 0
    parting: Parting | None = None

    @property
    def halves(self) -> tuple[Chosen, Chosen]:
        return self.a, self.b

    @property
    def twice(self) -> bool:
        """Whether both are the same request, of which there is nothing to tell."""
        return self.a.record is not None and (self.a.run.pk, self.a.round) == (self.b.run.pk, self.b.round)

    @property
    def why(self) -> str:
        return explained_between(self.map.reuse, between=self.between) if self.map else ""

    @property
    def backwards(self) -> bool:
        """Whether B was sent before A."""
        a, b = self.a.record, self.b.record
        return a is not None and b is not None and b.moment < a.moment

    def step(self, by: int) -> tuple[int, int] | None:
        """The rounds of the pair that is `by` rounds further on in both runs; `None` where one doesn't go that far, or
        both are the same."""
        moved = (self.a.round + by, self.b.round + by)
        there = [
            chosen.rounds is not None and chosen.rounds.first <= round <= chosen.rounds.last
            for chosen, round in zip(self.halves, moved, strict=True)
        ]
        return moved if all(there) and not self.twice else None


def read_request_pair(sides: Sequence[Side], rounds: Sequence[int | None], *, user: Any) -> RequestPair | None:
    """The requests of the named rounds; where none is named, of the first of a run, and of the next where both are
    rounds of one run. `None` where neither run sent any."""
    known = [rounds_of(side.run) for side in sides]
    if not any(known):
        return None
    a = _choose(sides[0], known[0], rounds[0], user=user)
    default = a.round + 1 if sides[0].run.pk == sides[1].run.pk else None
    b = _choose(sides[1], known[1], rounds[1] or default, user=user)
    alone = RequestPair(a=a, b=b)
    if a.record is None or b.record is None or alone.twice:
        return alone
    found = read_cache_map(a.record, b.record)
    return RequestPair(
        a=a,
        b=b,
        map=found,
        between=requests_between(a.record, b.record),
        parting=None if found.prefix else _parting(a.record, b.record),
    )


def _choose(side: Side, rounds: Rounds | None, round: int | None, *, user: Any) -> Chosen:
    wanted = round or (rounds.first if rounds else 1)
    sequences = requests_of_round(side.run, wanted) if rounds else []
    return Chosen(
        letter=side.letter,
        run=side.run,
        round=wanted,
        rounds=rounds,
        record=StepRecord(side.run, sequences[-1], user=user) if sequences else None,
        count=len(sequences),
    )


def _parting(a: StepRecord, b: StepRecord) -> Parting | None:
    if a.first.data.get("tools") != b.first.data.get("tools"):
        return Parting()
    earlier, later = a.message_digests[0], b.message_digests[0]
    for place, (one, other) in enumerate(zip(earlier, later, strict=False)):
        if one != other:
            return Parting(message=place + 1, segments=tuple(b.plan.segments_of(place, other)))
    return None
