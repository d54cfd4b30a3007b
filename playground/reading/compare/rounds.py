"""The rounds of two runs beside each other, on one axis of time, and what their tool calls have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from llmcore.trace import StepKind
from playground.models import RunStep
from playground.numbers import duration, percent
from playground.reading.compare.calls import Called, CallPair, calls_of, paired_calls
from playground.reading.compare.sides import Side
from playground.reading.lines import Line, Rect, Round
from playground.reading.step_rows import load_rows
from playground.reading.steps import queued_line, read_lines

# So many rounds are shown at once: a page of a thousand rounds reads no more than these.
ROUNDS_AT_ONCE = 25
# Ticks of the axis stand at one of these distances, in seconds.
TICKS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 86_400)
MOST_TICKS = 5
# Findings that a word says; of the others, notes are left to the pages of the runs.
CACHE_MISSES = {"prefix_changed": "cache miss", "cached_below_planned": "cache miss"}
MIN_WIDTH = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Half:
    """What one of the two runs did in a round; without a line where it had no such round."""

    side: Side
    call: Line | None = None
    calls: tuple[Called, ...] = ()
    duration_ms: float | None = None
    cached: str = ""
    rects: tuple[Rect, ...] = ()
    findings: tuple[str, ...] = ()

    @property
    def there(self) -> bool:
        return self.call is not None


@dataclass(frozen=True, slots=True)
class Pair:
    """A round of both runs."""

    number: int
    a: Half
    b: Half

    @property
    def halves(self) -> tuple[Half, Half]:
        return self.a, self.b

    @property
    def note(self) -> str:
        """How the rounds differ, in a few words."""
        if not self.a.there or not self.b.there:
            there, missing = (self.a, self.b) if self.a.there else (self.b, self.a)
            taken_over = self.number < (missing.side.run.forked_at_round or 0)
            return f"before the fork of {missing.side.letter}" if taken_over else f"only in {there.side.letter}"
        calls_a, calls_b = ([(call.name, call.arguments) for call in half.calls] for half in self.halves)
        if calls_a == calls_b:
            return "same calls" if calls_a else "no calls"
        same_names = [name for name, _ in calls_a] == [name for name, _ in calls_b]
        return "other arguments" if same_names else "other calls"

    @property
    def alike(self) -> bool:
        return self.note in ("same calls", "no calls") or self.note.startswith("before")


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundPairs:
    """The rounds `first` to `last` of `total`. `ticks` are places on the axis in percent, `axis` says its ends."""

    pairs: tuple[Pair, ...]
    calls: tuple[CallPair, ...]
    first: int
    last: int
    total: int
    axis: str
    ticks: tuple[str, ...]
    aligned: bool
    called: int = 0

    @property
    def calls_left(self) -> int:
        """Calls of these rounds that are in none of the pairs."""
        return self.called - sum((pair.a is not None) + (pair.b is not None) for pair in self.calls)

    @property
    def before(self) -> int | None:
        """The first round of the page before this one."""
        return max(self.first - ROUNDS_AT_ONCE, 1) if self.first > 1 else None

    @property
    def after(self) -> int | None:
        return self.last + 1 if self.last < self.total else None


def read_pairs(sides: Sequence[Side], *, at: int = 1, aligned: bool = False) -> RoundPairs | None:
    """The page of rounds that `at` is on; `aligned` lets both begin each round at the same place. `None` where neither
    run had a round."""
    total = max((side.run.rounds for side in sides), default=0)
    if not total:
        return None
    first = (min(max(at, 1), total) - 1) // ROUNDS_AT_ONCE * ROUNDS_AT_ONCE + 1
    last = min(first + ROUNDS_AT_ONCE - 1, total)
    loaded = [_load(side, first, last) for side in sides]
    shown = [round for one in loaded for round in one.rounds.values()]
    axis = _Axis.over(shown, aligned=aligned, from_start=first == 1)
    pairs = [
        Pair(number, *(_half(side, one, number, axis) for side, one in zip(sides, loaded, strict=True)))
        for number in range(first, last + 1)
    ]
    called = [[call for number in sorted(one.calls) for call in one.calls[number]] for one in loaded]
    return RoundPairs(
        pairs=tuple(pairs),
        calls=tuple(paired_calls(sides, *called)),
        first=first,
        last=last,
        total=total,
        axis=axis.words,
        ticks=tuple(axis.ticks),
        aligned=aligned,
        called=sum(map(len, called)),
    )


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The rounds of one run that a page shows, with their calls, cached shares and findings by their numbers."""

    rounds: Mapping[int, Round]
    calls: Mapping[int, Sequence[Called]]
    cached: Mapping[int, str]
    findings: Mapping[int, Sequence[str]]


def _load(side: Side, first: int, last: int) -> _Loaded:
    rows = load_rows(RunStep.objects.filter(run=side.run, round__gte=first, round__lte=last))
    rounds: dict[int, Round] = {}
    for line in read_lines(side.run, rows):
        rounds.setdefault(line.round, Round(number=line.round, lines=[])).lines.append(line)
    if first in rounds and first == 1:
        rounds[1].lines.insert(0, queued_line(side.run))
    round_of = {row.sequence: row.round for row in rows}
    findings: dict[int, list[str]] = {}
    for finding in side.run.findings or ():
        word = CACHE_MISSES.get(finding.get("id")) or (finding.get("severity") != "note" and finding.get("title"))
        if word and (number := round_of.get(finding.get("sequence"))) is not None:
            findings.setdefault(number, []).append(str(word))
    usages = {row.round: row.data.get("usage") or {} for row in rows if row.kind == StepKind.RESPONSE}
    return _Loaded(
        rounds={number: round for number, round in rounds.items() if _call_of(round)},
        calls=calls_of(rows),
        cached={n: percent(u.get("cache_read_input_tokens"), u.get("input_tokens")) for n, u in usages.items()},
        findings=findings,
    )


def _half(side: Side, loaded: _Loaded, number: int, axis: _Axis) -> Half:
    round = loaded.rounds.get(number)
    if round is None:
        return Half(side=side)
    return Half(
        side=side,
        call=_call_of(round),
        calls=tuple(loaded.calls.get(number, ())),
        duration_ms=round.end_ms - _start_of(round),
        cached=loaded.cached.get(number, ""),
        rects=tuple(axis.rects(round)),
        findings=tuple(loaded.findings.get(number, ())),
    )


@dataclass(frozen=True, slots=True)
class _Axis:
    """Milliseconds that become percent. Aligned, each round begins at the axis's start."""

    origin: float
    end: float
    aligned: bool

    @classmethod
    def over(cls, rounds: Sequence[Round], *, aligned: bool, from_start: bool) -> _Axis:
        if aligned:
            return cls(0.0, max(max((r.end_ms - _start_of(r) for r in rounds), default=0.0), 1.0), True)
        origin = 0.0 if from_start else min((_start_of(round) for round in rounds), default=0.0)
        return cls(origin, max(max((round.end_ms for round in rounds), default=0.0), origin + 1.0), False)

    @property
    def words(self) -> str:
        return f"{duration(self.origin)} to {duration(self.end)}"

    @property
    def ticks(self) -> list[str]:
        step = next((s for s in TICKS_S if s * 1000 * MOST_TICKS >= self._length), TICKS_S[-1]) * 1000
        first = -(-self.origin // step)
        places = [step * (first + n) for n in range(MOST_TICKS + 1)]
        return [self._percent(place - self.origin) for place in places if self.origin < place < self.end]

    def rects(self, round: Round) -> Iterator[Rect]:
        start = _start_of(round) if self.aligned else self.origin
        for line in round.lines:
            if self.aligned and line.css == "start":
                continue
            for bar in line.bars:
                width = self._percent(bar.length_ms, least=MIN_WIDTH)
                yield Rect(self._percent(bar.start_ms - start), width, bar.css)

    @property
    def _length(self) -> float:
        return self.end - self.origin

    def _percent(self, ms: float, least: float = 0.0) -> str:
        return f"{max(100 * ms / self._length, least):.2f}".rstrip("0").rstrip(".")


def _call_of(round: Round) -> Line | None:
    return next((line for line in round.lines if line.css == "call"), None)


def _start_of(round: Round) -> float:
    return min(line.from_ms for line in round.lines if line.css != "start")
