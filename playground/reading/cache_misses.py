"""Which model calls read less from their provider's cache than they could have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from llmcore.findings.cache import rules_of
from llmcore.prompts.cache import MISSES, Sent, reuse_of
from llmcore.trace import StepKind
from playground.models import Run, RunStep
from playground.reading.lines import Badge, Round
from playground.reading.step_rows import StepRow, load_rows

# The call before may have been broken off and made again, or asked of other models first.
MOST_BEFORE = 12


def mark_cache_misses(rounds: Iterable[Round], rows: Iterable[StepRow]) -> None:
    """Put a badge on their lines. `rows` are all steps of the run, or those of some rounds and `calls_before` them, for
    each call is told by the one before."""
    missed = set(_missed(rows))
    for round in rounds:
        for line in round.lines:
            if line.sequence in missed:
                line.badges.append(Badge("cache miss", "chg"))


def reports_cache(row: StepRow) -> bool:
    """Whether it is an answer that says what was read from a cache: without one nothing is known to be missed."""
    usage = row.data.get("usage") or {}
    return row.kind == StepKind.RESPONSE and usage.get("cache_read_input_tokens") is not None


def calls_before(run: Run, round: int) -> list[StepRow]:
    """The steps of the last model calls before a round, as many as it takes to tell of the next one."""
    calls = RunStep.objects.filter(run=run, round__lt=round, kind__in=(StepKind.REQUEST, StepKind.RESPONSE))
    newest = calls.order_by("-sequence").values_list("sequence", flat=True)[:MOST_BEFORE]
    return load_rows(RunStep.objects.filter(run=run, sequence__in=list(newest)))


def _missed(rows: Iterable[StepRow]) -> Iterator[int]:
    request: StepRow | None = None
    before: Sent | None = None
    for row in rows:
        if row.kind == StepKind.REQUEST:
            request = row
        elif row.kind == StepKind.RESPONSE and request is not None:
            now = Sent(
                data=request.data,
                usage=row.data.get("usage") or {},
                answered=not (row.data.get("error") or row.data.get("cancelled")),
                started_ms=request.started_ms,
                ended_ms=row.end_ms,
            )
            rules = rules_of(str(request.data.get("adapter")), str(request.data.get("model")))
            if reuse_of(before, now, rules).reason in MISSES:
                yield request.sequence
            request, before = None, now
