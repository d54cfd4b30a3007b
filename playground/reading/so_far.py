"""The counters of a run that goes on: what was reported, and an estimate of the call that is being answered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from llmcore.trace import StepKind
from llmcore.usage import Usage
from playground.models import Run, RunPartial
from playground.reading.plan import Plan, read_estimator
from playground.reading.step_rows import StepRow, is_live


@dataclass(frozen=True, kw_only=True, slots=True)
class SoFar:
    """Prompt and completion tokens and their cost. `estimated`: with those of a call that has not reported yet."""

    input_tokens: int | None
    output_tokens: int | None
    cost: Decimal | None
    estimated: bool = False


def read_so_far(run: Run, rows: Iterable[StepRow], plan: Plan, *, streamed: int) -> SoFar:
    """`streamed` are the tokens that have come of the answer which the newest request waits for."""
    open_call = _open_call(rows) if is_live(run) else None
    estimate = open_call.data.get("input_tokens_estimate") if open_call else None
    if estimate is None:
        return SoFar(input_tokens=run.input_tokens, output_tokens=run.output_tokens, cost=run.cost)
    cost = plan.prices.cost(Usage(input_tokens=estimate, output_tokens=streamed))
    return SoFar(
        input_tokens=(run.input_tokens or 0) + estimate,
        output_tokens=(run.output_tokens or 0) + streamed,
        cost=run.cost if cost is None else (run.cost or Decimal(0)) + cost,
        estimated=True,
    )


def streamed_tokens(run: Run, partial: RunPartial | None) -> int:
    """Of what has come of an answer, as the run counts."""
    estimator = read_estimator(run)
    return sum(map(estimator.roughly, (partial.text, partial.thinking, partial.tool_call))) if partial else 0


def _open_call(rows: Iterable[StepRow]) -> StepRow | None:
    """The newest request, unless its response is there."""
    found = None
    for row in rows:
        if row.kind == StepKind.REQUEST:
            found = row
        elif row.kind == StepKind.RESPONSE:
            found = None
    return found
