"""What the budgets say of a run before it is started."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.contrib.auth.models import User

from llmcore.budgets.base import Amounts, Measure, Need, Period, moment, spelled
from llmcore.context.budget import WindowUse
from llmcore.context.forecast import Forecast
from llmcore.findings import Severity
from llmcore.lint import Notice
from llmcore.lint.notice import configuration
from llmcore.metering.affording import need_of
from llmcore.site_budgets import Standing, standings_for
from playground.services.prepare_run import PreparedRun

WHEN = {Period.DAY: "today's", Period.MONTH: "this month's"}


def budget_notices(
    *, prepared: PreparedRun, use: WindowUse, foreseen: Forecast, user: User, now: datetime
) -> Iterator[Notice]:
    """Budgets that have no room for the first call, or may have none for a later one."""
    need = need_of(prepared.call, input_tokens=use.most_used, body_bytes=len(prepared.wire.body))
    run = Amounts(requests=foreseen.calls, tokens=foreseen.tokens or 0, cost=foreseen.most)
    yield from _of_ceiling(prepared, need, run)
    for standing in standings_for(configuration_id=prepared.configuration.id, user=user, now=now):
        yield from _of_budget(standing, need, run)


def _of_budget(standing: Standing, need: Need, run: Amounts) -> Iterator[Notice]:
    name, measure = standing.budget.name, standing.measure
    foreseen = run.of(measure)
    if shortage := standing.shortage(need):
        yield Notice(
            id="budget_used_up",
            severity=Severity.ERROR,
            title=f"A run would end before its first call: it doesn't fit the budget “{name}”",
            detail=f"{shortage.message} {shortage.advice}",
        )
    elif foreseen is not None and foreseen > standing.left:
        yield Notice(
            id="budget_may_end_run",
            severity=Severity.WARNING,
            title=f"This run may {_take(measure)} up to {spelled(measure, foreseen)}; "
            f"{spelled(measure, standing.left)} of {WHEN[Period(standing.budget.period)]} budget “{name}” are left",
            detail=f"It would end before the call that might not fit. The budget begins anew on "
            f"{moment(standing.renews_at)}.",
        )


def _of_ceiling(prepared: PreparedRun, need: Need, run: Amounts) -> Iterator[Notice]:
    ceiling, fix = prepared.configuration.ceiling, configuration(prepared.configuration.id)
    for measure in Measure:
        limit, needed, foreseen = ceiling.of(measure), need.most.of(measure), run.of(measure)
        if limit is None:
            continue
        if needed is None or needed > limit:
            why = "its model has no price" if needed is None else f"that may take {spelled(measure, needed)}"
            yield Notice(
                id="run_limit_too_low",
                severity=Severity.ERROR,
                title=f"A run would end before its first call: {why}, and one run may {_take(measure)} no more than "
                f"{spelled(measure, limit)}",
                detail="Raise the configuration's limit of a run, or lower “max tokens”."
                if needed is not None
                else "Enter the model's prices (0 if it is free), or remove the limit.",
                fix=fix,
            )
        elif foreseen is not None and foreseen > limit:
            yield Notice(
                id="run_limit_may_end_run",
                severity=Severity.NOTE,
                title=f"This run may {_take(measure)} up to {spelled(measure, foreseen)}; it ends before it comes to "
                f"more than {spelled(measure, limit)}",
                fix=fix,
            )


def _take(measure: Measure) -> str:
    return "cost" if measure is Measure.COST else "take"
