"""Budgets over the database, for any number of processes: a reservation is one conditional update for each budget."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal

from django.db import transaction
from django.db.models import F, Q, QuerySet, Sum
from django.utils import timezone

from llmcore.budgets.base import (
    THRESHOLDS,
    Amount,
    Amounts,
    BudgetExceeded,
    BudgetsAway,
    Crossing,
    Measure,
    Need,
    Period,
    Shortage,
)
from llmcore.budgets.periods import begin_of, renewal_of
from llmcore.database_access import reached
from llmcore.models.budgets import Budget, BudgetCrossing, BudgetPeriod, BudgetReservation

logger = logging.getLogger(__name__)

BILLION = 1_000_000_000
# What one call may take has no bound, and a column has: more than this is counted as this.
MOST_STORED = 10**16
# How long after its call must have ended a reservation is kept for whoever settles it.
GRACE = timedelta(seconds=60)


class DatabaseBudgets:
    """The budgets that the calls of one run count in."""

    def __init__(
        self,
        *,
        configuration_id: int | None,
        user_id: int | None,
        run_id: int | None = None,
        now: Callable[[], datetime] = timezone.now,
    ) -> None:
        self._configuration_id = configuration_id
        self._user_id = user_id
        self._run_id = run_id
        self._now = now

    def budgets(self) -> QuerySet[Budget]:
        return budgets_for(configuration_id=self._configuration_id, user_id=self._user_id)

    def reserve(self, token: str, need: Need, *, within_s: float) -> None:
        reached(lambda: self._reserve(token, need, within_s), away=BudgetsAway)

    def settle(self, token: str, used: Amounts | None) -> list[Crossing]:
        found = BudgetReservation.objects.filter(token=token).order_by("period_id")
        rows = reached(lambda: list(found), away=BudgetsAway)
        return reached(lambda: settle_rows(rows, used, now=self._now()), away=BudgetsAway)

    def _reserve(self, token: str, need: Need, within_s: float) -> None:
        now = self._now()
        periods = periods_of(self.budgets(), now, user_id=self._user_id)
        try:
            self._take(periods, token, need, ends_at=now + timedelta(seconds=within_s) + GRACE)
        except BudgetExceeded:
            # What calls hold that must have ended long ago is in nobody's way.
            overdue = BudgetReservation.objects.filter(period__in=periods, ends_at__lt=now)
            if not give_back(overdue, now=now):
                raise
            self._take(periods, token, need, ends_at=now + timedelta(seconds=within_s) + GRACE)

    @transaction.atomic
    def _take(self, periods: Sequence[BudgetPeriod], token: str, need: Need, *, ends_at: datetime) -> None:
        """All or nothing. The rows are taken in one order, so that two calls can't wait for each other; the first
        statement writes, so that SQLite locks at once."""
        most = columns_of(need.most)
        taken = []
        for period in periods:
            row = BudgetPeriod.objects.filter(fits(period.budget, need), pk=period.pk)
            if row.update(**{name: F(name) + amount for name, amount in most.items()}):
                taken.append(period)
            elif BudgetPeriod.objects.filter(pk=period.pk).exists():
                raise BudgetExceeded(shortage_of(period, need))
            # Else somebody has deleted the budget just now: it limits nothing.
        if BudgetReservation.objects.filter(token=token).exists():
            # Asked again after a connection was lost: it had come through.
            transaction.set_rollback(True)
            return
        sent = columns_of(need.sent)
        BudgetReservation.objects.bulk_create(
            BudgetReservation(
                token=token,
                period=period,
                run_id=self._run_id,
                ends_at=ends_at,
                sent_tokens=sent["tokens"],
                sent_cost=sent["cost"],
                **most,
            )
            for period in taken
        )


def budgets_for(*, configuration_id: int | None, user_id: int | None) -> QuerySet[Budget]:
    """The budgets that calls of this configuration's run of this user count in."""
    return Budget.objects.filter(
        Q(configuration=None) | Q(configuration=configuration_id),
        Q(user=None) | Q(user=user_id),
        enabled=True,
    ).order_by("pk")


def holder_of(budget: Budget, user_id: int | None) -> int | None:
    """Whose period a call of this user counts in; `None` where all share one."""
    return user_id if budget.each_user else None


def periods_of(budgets: Iterable[Budget], now: datetime, *, user_id: int | None) -> list[BudgetPeriod]:
    """The period of each budget that `now` lies in, written if this call of the user is the first to ask; by the number
    of the row."""
    zone = timezone.get_default_timezone()
    wanted = {budget: begin_of(Period(budget.period), now, zone) for budget in budgets}
    asked = Q(pk__in=[])
    for budget, begins_on in wanted.items():
        asked |= Q(budget=budget, begins_on=begins_on, user=holder_of(budget, user_id))
    rows = BudgetPeriod.objects.filter(asked).select_related("budget").order_by("pk")
    found = list(rows)
    if len(found) < len(wanted):
        BudgetPeriod.objects.bulk_create(
            [
                BudgetPeriod(budget=budget, begins_on=begins_on, user_id=holder_of(budget, user_id))
                for budget, begins_on in wanted.items()
            ],
            ignore_conflicts=True,
        )
        found = list(rows.all())
    return found


def fits(budget: Budget, need: Need) -> Q:
    """What a period of `budget` has to be like, so that a call of this `need` fits."""
    condition = Q()
    for measure in Measure:
        limit, needed = budget.allowance.of(measure), need.most.of(measure)
        if limit is None:
            continue
        if needed is None:
            # Nobody can say what it would cost.
            return Q(pk__in=[])
        condition &= Q(**{f"{measure.value}__lte": stored(measure, limit) - stored(measure, needed)})
    return condition


def shortage_of(period: BudgetPeriod, need: Need) -> Shortage:
    """Why a call doesn't fit, by what is taken now."""
    budget = period.budget
    period.refresh_from_db(fields=["requests", "tokens", "cost"])
    reserved = reserved_of(period)
    zone = timezone.get_default_timezone()

    def shortage(measure: Measure, limit: Amount) -> Shortage:
        held = reserved[measure.value]
        return Shortage(
            name=budget.name,
            period=Period(budget.period),
            measure=measure,
            limit=limit,
            used=shown(measure, getattr(period, measure.value) - held),
            reserved=shown(measure, held),
            needed=need.most.of(measure),
            model=need.model,
            renews_at=renewal_of(Period(budget.period), period.begins_on, zone),
            each_user=budget.each_user,
        )

    limited = [(measure, limit) for measure in Measure if (limit := budget.allowance.of(measure)) is not None]
    all_of_them = [shortage(measure, limit) for measure, limit in limited]
    short = [s for s in all_of_them if s.needed is None or s.used + s.reserved + s.needed > s.limit]
    # Somebody may have given back just now.
    return (short or all_of_them)[0]


def give_back(rows: QuerySet[BudgetReservation], *, now: datetime) -> int:
    """Free what the `rows` hold but for what was sent: nobody settles them any more. How many calls they were."""
    by_token: dict[str, list[BudgetReservation]] = {}
    for row in rows.order_by("period_id"):
        by_token.setdefault(row.token, []).append(row)
    # Each call on its own: who holds the rows of one never waits for those of another.
    for found in by_token.values():
        settle_rows(found, None, now=now)
        logger.info("run %s: what a lost call had reserved was given back", found[0].run_id)
    return len(by_token)


@transaction.atomic
def settle_rows(rows: Sequence[BudgetReservation], used: Amounts | None, *, now: datetime) -> list[Crossing]:
    """Count what was `used` (`None`: what was sent) in place of what the `rows` hold, in the periods in which they were
    reserved. A row that somebody else settles at the same time is theirs."""
    crossings: list[Crossing] = []
    for row in rows:
        if not BudgetReservation.objects.filter(pk=row.pk).delete()[0]:
            continue
        if used is None:
            spent = {"requests": row.requests, "tokens": row.sent_tokens, "cost": row.sent_cost}
        else:
            spent = columns_of(used)
        period = BudgetPeriod.objects.filter(pk=row.period_id)
        if not period.update(**{name: F(name) + amount - getattr(row, name) for name, amount in spent.items()}):
            continue
        crossings += _cross(period.select_related("budget").get(), run_id=row.run_id, now=now)
    for crossing in crossings:
        logger.warning(
            "the budget “%s” has come to %d %% of its %s", crossing.name, crossing.percent, crossing.measure.value
        )
    return crossings


def _cross(period: BudgetPeriod, *, run_id: int | None, now: datetime) -> list[Crossing]:
    """Note what parts of its limits the period has come to for the first time. Its row is locked by now."""
    budget, reserved = period.budget, reserved_of(period)
    noted = set(period.crossings.values_list("measure", "percent"))
    found = []
    for measure in Measure:
        limit = budget.allowance.of(measure)
        if limit is None:
            continue
        used = getattr(period, measure.value) - reserved[measure.value]
        for percent in THRESHOLDS:
            if used * 100 >= stored(measure, limit) * percent and (measure.value, percent) not in noted:
                found.append(
                    Crossing(
                        name=budget.name,
                        period=Period(budget.period),
                        measure=measure,
                        percent=percent,
                        limit=limit,
                        used=shown(measure, used),
                        renews_at=renewal_of(Period(budget.period), period.begins_on, timezone.get_default_timezone()),
                    )
                )
    BudgetCrossing.objects.bulk_create(
        BudgetCrossing(period=period, measure=item.measure.value, percent=item.percent, run_id=run_id, crossed_at=now)
        for item in found
    )
    return found


def reserved_of(period: BudgetPeriod) -> dict[str, int]:
    """What calls in flight hold."""
    sums = period.reservations.aggregate(**{measure.value: Sum(measure.value) for measure in Measure})
    return {name: amount or 0 for name, amount in sums.items()}


def columns_of(amounts: Amounts) -> dict[str, int]:
    """As the columns take them; a cost that is unknown counts as none where no cost is limited."""
    return {measure.value: min(stored(measure, amounts.of(measure) or 0), MOST_STORED) for measure in Measure}


def stored(measure: Measure, amount: Amount) -> int:
    """Costs in billionths of a dollar, rounded up."""
    if measure is not Measure.COST:
        return int(amount)
    return int((Decimal(amount) * BILLION).to_integral_value(rounding=ROUND_CEILING))


def shown(measure: Measure, amount: int) -> Amount:
    return Decimal(amount) / BILLION if measure is Measure.COST else amount
