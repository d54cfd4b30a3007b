"""The requests of runs: which one a round sent, which came before another, and what two of them are to a cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Max, Min

from llmcore.findings.cache import rules_of
from llmcore.prompts.cache import Reuse, Sent, reuse_of
from playground.access import visible_runs
from playground.models import Run, RunStep
from playground.reading.step_record import REQUESTS, StepRecord


@dataclass(frozen=True, slots=True)
class Rounds:
    """The rounds `first` to `last` of a run sent requests."""

    first: int
    last: int


def rounds_of(run: Run) -> Rounds | None:
    """`None` where nothing was sent, and nothing was assembled to be sent."""
    found = RunStep.objects.filter(run=run, kind__in=REQUESTS).aggregate(first=Min("round"), last=Max("round"))
    return None if found["first"] is None else Rounds(found["first"], found["last"])


def requests_of_round(run: Run, round: int) -> list[int]:
    """The sequences of its requests. The last one counts: those before it were broken off, or asked of another
    model."""
    steps = RunStep.objects.filter(run=run, kind__in=REQUESTS, round=round)
    return list(steps.order_by("sequence").values_list("sequence", flat=True))


def request_before(now: StepRecord) -> StepRecord | None:
    """The request before `now` in its run."""
    sequence = now.request_before()
    return None if sequence is None else StepRecord(now.run, sequence, user=now.user)


def request_forked_from(now: StepRecord) -> StepRecord | None:
    """For the first request of a fork: the one of its parent that it makes again or follows; `None` where there is
    none, or it may not be seen."""
    if now.run.forked_at_round is None or now.run.parent_id is None:
        return None
    parent = visible_runs(now.user).filter(pk=now.run.parent_id).first()
    steps = RunStep.objects.filter(run=parent, kind__in=REQUESTS, round__lte=now.run.forked_at_round)
    sequence = steps.order_by("-sequence").values_list("sequence", flat=True).first()
    return None if parent is None or sequence is None else StepRecord(parent, sequence, user=now.user)


def requests_between(before: StepRecord, now: StepRecord) -> int:
    """How many requests of the run that both are of stand between them; 0 for two runs."""
    if before.run.pk != now.run.pk:
        return 0
    steps = RunStep.objects.filter(run=now.run, kind__in=REQUESTS)
    return steps.filter(sequence__gt=before.sequence, sequence__lt=now.sequence).count()


def reuse_between(before: StepRecord | None, now: StepRecord, share: float | None = None) -> Reuse:
    """What `now` could read of `before`, as if it had followed it."""
    data = now.first.data
    rules = rules_of(str(data.get("adapter")), str(data.get("model")))
    if before is None:
        return reuse_of(None, sent(now), rules)
    follows = before.run.pk == now.run.pk and now.request_before() == before.sequence
    return reuse_of(sent(before), sent(now) if follows else _as_next(before, now), rules, share=share)


def sent(record: StepRecord) -> Sent:
    end = record.end
    got: Any = end.data if end else {}
    return Sent(
        data=record.first.data,
        usage=got.get("usage") or {},
        answered=bool(got) and not got.get("error") and not got.get("cancelled"),
        started_ms=record.first.started_ms,
        ended_ms=(end or record.first).end_ms,
    )


def _as_next(before: StepRecord, now: StepRecord) -> Sent:
    """A request as if it had followed another one: what it kept of that one, and when by the clock."""
    alone = sent(now)
    kept = 0
    for one, other in zip(before.message_digests[0], now.message_digests[0], strict=False):
        if one != other:
            break
        kept += 1
    begun_ms = before.first.started_ms + (now.moment - before.moment).total_seconds() * 1000
    return Sent(
        data={**alone.data, "kept": kept},
        usage=alone.usage,
        answered=alone.answered,
        started_ms=begun_ms,
        ended_ms=begun_ms + alone.ended_ms - alone.started_ms,
    )
