"""The budgets of this site: those that a run counts in, and how they stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import connections
from django.db.models import F, FloatField, Q, QuerySet, Sum, Window
from django.db.models.functions import Cast, Coalesce, Greatest, RowNumber
from django.utils import timezone

from llmcore import configuration as values
from llmcore.budgets.base import Amount, Amounts, Measure, Need, Period, Shortage
from llmcore.budgets.database import BILLION, DatabaseBudgets, budgets_for, give_back, holder_of, shown, stored
from llmcore.budgets.periods import begin_of, renewal_of
from llmcore.budgets.run import RunBudgets
from llmcore.models import Budget, BudgetPeriod, BudgetReservation, UsageRecord


def site_budgets(
    *, configuration: values.Configuration, user: Any, run_id: int | None = None, unreported: Amounts | None = None
) -> RunBudgets:
    """What the calls of one run reserve from; to be asked on a thread that may use the database. A budget that is
    entered later holds for runs that start, or go on, after it. `unreported` is what the run used before without a
    count of its provider."""
    store = DatabaseBudgets(configuration_id=configuration.id, user_id=getattr(user, "pk", None), run_id=run_id)
    return RunBudgets(
        store if store.budgets().exists() else None,
        ceiling=configuration.ceiling,
        used=used_by_run(run_id) + (unreported or Amounts()) if run_id is not None and configuration.ceiling else None,
        close=connections.close_all,
    )


def used_by_run(run_id: int) -> Amounts:
    """What the run has used already, as far as it was counted."""
    sums = UsageRecord.objects.filter(run_id=run_id).aggregate(
        tokens=Sum(F("input_tokens") + F("output_tokens")), cost=Sum("cost")
    )
    return Amounts(tokens=sums["tokens"] or 0, cost=sums["cost"] or Decimal(0))


def give_back_lost(*, now: datetime, run_id: int | None = None) -> int:
    """Free what calls hold whose time is over, and those of the run `run_id`, whose worker is known to be lost."""
    lost = Q(ends_at__lt=now) | (Q(run_id=run_id) if run_id is not None else Q(pk__in=[]))
    return give_back(BudgetReservation.objects.filter(lost), now=now)


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """How one limit of a budget stands in the period that goes on; of a budget for each user, for `user` (`None`: for
    calls that are made for nobody)."""

    budget: Budget
    user: Any
    measure: Measure
    limit: Amount
    used: Amount
    reserved: Amount
    renews_at: datetime

    @property
    def left(self) -> Amount:
        return max(self.limit - self.used - self.reserved, 0)

    @property
    def percent(self) -> int:
        return int(self.used * 100 / self.limit)

    def shortage(self, need: Need) -> Shortage | None:
        """Why a call would not fit now; `None` where it does."""
        needed = need.most.of(self.measure)
        if needed is not None and needed <= self.left:
            return None
        return Shortage(
            name=self.budget.name,
            period=Period(self.budget.period),
            measure=self.measure,
            limit=self.limit,
            used=self.used,
            reserved=self.reserved,
            needed=needed,
            model=need.model,
            renews_at=self.renews_at,
            each_user=self.budget.each_user,
        )


def standings_for(*, configuration_id: int | None, user: Any, now: datetime) -> list[Standing]:
    """How the budgets stand that a run would count in; one query, and one more where there are any."""
    user_id = getattr(user, "pk", None)
    budgets = list(budgets_for(configuration_id=configuration_id, user_id=user_id))
    if not budgets:
        return []
    rows = periods_now(now).filter(Q(user=user_id) | Q(user=None), budget__in=budgets)
    running = {(row.budget_id, row.user_id): row for row in rows}
    return [
        standing
        for budget in budgets
        for standing in _standings(budget, running.get((budget.pk, holder_of(budget, user_id))), now)
    ]


def standings(budgets: Iterable[Budget], *, now: datetime, most_users: int = 1) -> list[Standing]:
    """How each limit of the budgets stands, in a few queries; of those for each user, for the users that used most."""
    budgets = list(budgets)
    rows = periods_now(now)
    if of_each := [budget for budget in budgets if budget.each_user]:
        rows = rows.filter(Q(pk__in=_furthest(of_each, now=now, most_users=most_users)) | Q(user=None))
    else:
        rows = rows.filter(user=None)
    running: dict[int, list[BudgetPeriod]] = {}
    for row in rows.filter(budget__in=budgets):
        running.setdefault(row.budget_id, []).append(row)
    found: list[Standing] = []
    for budget in budgets:
        furthest = sorted(running.get(budget.pk, ()), key=_part, reverse=True)[:most_users]
        for period in furthest or (None,):
            found += _standings(budget, period, now)
    return found


def _standings(budget: Budget, row: BudgetPeriod | None, now: datetime) -> Iterator[Standing]:
    zone, period = timezone.get_default_timezone(), Period(budget.period)
    for measure in Measure:
        if (limit := budget.allowance.of(measure)) is not None:
            yield Standing(
                budget=budget,
                user=row.user if row is not None and budget.each_user else None,
                measure=measure,
                limit=limit,
                used=shown(measure, taken_of(row, measure) - held_of(row, measure)),
                reserved=shown(measure, held_of(row, measure)),
                renews_at=renewal_of(period, begin_of(period, now, zone), zone),
            )


def _furthest(budgets: Iterable[Budget], *, now: datetime, most_users: int) -> QuerySet[BudgetPeriod, Any]:
    """The periods of those users who have taken most of each budget."""
    parts = [
        Coalesce(Cast(measure.value, FloatField()) / (Cast(f"budget__max_{measure.value}", FloatField()) * unit), 0.0)
        for measure, unit in ((Measure.REQUESTS, 1.0), (Measure.TOKENS, 1.0), (Measure.COST, float(BILLION)))
    ]
    rows = BudgetPeriod.objects.filter(_current(now), budget__in=list(budgets)).annotate(
        place=Window(RowNumber(), partition_by="budget", order_by=Greatest(*parts).desc())
    )
    return rows.filter(place__lte=most_users).values("pk")


def _part(row: BudgetPeriod) -> Decimal:
    """What part of its budget is taken, of the limit that is nearest."""
    limits = [(measure, limit) for measure in Measure if (limit := row.budget.allowance.of(measure)) is not None]
    parts = [Decimal(taken_of(row, measure)) / stored(measure, limit) for measure, limit in limits]
    return max(parts, default=Decimal(0))


def periods_now(now: datetime) -> QuerySet[BudgetPeriod]:
    """The periods that go on, with what calls in flight hold of them."""
    held = {f"held_{measure.value}": Sum(f"reservations__{measure.value}") for measure in Measure}
    return BudgetPeriod.objects.filter(_current(now)).select_related("budget", "user").annotate(**held)


def _current(now: datetime) -> Q:
    zone = timezone.get_default_timezone()
    current = Q()
    for period in (Period.DAY, Period.MONTH):
        current |= Q(budget__period=period.value, begins_on=begin_of(period, now, zone))
    return current


def taken_of(row: BudgetPeriod | None, measure: Measure) -> int:
    return 0 if row is None else getattr(row, measure.value)


def held_of(row: BudgetPeriod | None, measure: Measure) -> int:
    return 0 if row is None else getattr(row, f"held_{measure.value}") or 0
