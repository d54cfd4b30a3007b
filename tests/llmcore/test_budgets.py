"""Budgets in the database: reserved whole or not at all, by any number of processes, and settled where they began."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from llmcore.budgets.base import Amounts, BudgetExceeded, Measure, Period, crossed, spelled
from llmcore.budgets.database import MOST_STORED, DatabaseBudgets
from llmcore.budgets.periods import begin_of, renewal_of
from llmcore.models import Budget, BudgetCrossing, BudgetPeriod, BudgetReservation
from llmcore.site_budgets import give_back_lost, standings, standings_for
from tests.factories import BudgetFactory, ConfigurationFactory, UserFactory
from tests.llmcore.budget_callers import Caller, need, used
from tests.playground.beside import environment_beside

pytestmark = pytest.mark.django_db
# Processes beside the test see only what is committed.
beside = pytest.mark.django_db(transaction=True)

NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)
StartCaller = Callable[..., Caller]


class Clock:
    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def start_caller(tmp_path: Path) -> Iterator[StartCaller]:
    environment = environment_beside(tmp_path)
    started: list[Caller] = []

    def start(**options: object) -> Caller:
        started.append(Caller(environment, **options))
        return started[-1]

    yield start
    for caller in started:
        if caller.process.poll() is None:
            caller.end()


def store_of(clock: Callable[[], datetime] = timezone.now, **of: int | None) -> DatabaseBudgets:
    return DatabaseBudgets(**{"configuration_id": None, "user_id": None, **of}, now=clock)  # type: ignore[arg-type]


def taken(budget: Budget) -> list[tuple[int, int, int]]:
    """What is taken of it in each period, the newest first."""
    return list(budget.periods.values_list("requests", "tokens", "cost"))


def test_a_budget_for_each_user_holds_for_every_user_alone(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:  # M3
    budget = BudgetFactory(name="Own", each_user=True, max_tokens=1_000)
    kim, lea = UserFactory(username="kim"), UserFactory(username="lea")
    of_kim, of_lea, of_nobody = (store_of(user_id=user_id) for user_id in (kim.pk, lea.pk, None))
    of_kim.reserve("a", need(900), within_s=60)
    of_kim.settle("a", used(800))
    of_lea.reserve("b", need(900), within_s=60)
    with pytest.raises(BudgetExceeded, match=r"The budget “Own” allows each user 1,000 tokens a day: 800 used"):
        of_kim.reserve("c", need(300), within_s=60)
    # Who is nobody is not without limits.
    of_nobody.reserve("d", need(600), within_s=60)
    with pytest.raises(BudgetExceeded):
        of_nobody.reserve("e", need(600), within_s=60)

    now = timezone.now()
    with django_assert_num_queries(2):
        (mine,) = standings_for(configuration_id=None, user=lea, now=now)
    assert (mine.user, mine.used, mine.reserved) == (lea, 0, 900)
    (new,) = standings_for(configuration_id=None, user=UserFactory(), now=now)
    assert (new.used, new.left) == (0, 1_000)
    with django_assert_num_queries(1):
        found = standings([budget], now=now, most_users=2)
    assert [(standing.user, standing.used + standing.reserved) for standing in found] == [(lea, 900), (kim, 800)]
    assert {row.period.user for row in BudgetCrossing.objects.all()} == {kim}


def test_of_a_budget_for_each_user_those_are_named_who_are_nearest_to_a_limit() -> None:  # M3
    budget = BudgetFactory(each_user=True, max_requests=10, max_cost="2")
    many, dear = UserFactory(), UserFactory()
    for number in range(4):
        store_of(user_id=many.pk).reserve(f"many {number}", need(cost="0.1"), within_s=60)
    store_of(user_id=dear.pk).reserve("dear", need(cost="1.5"), within_s=60)
    (_, cost) = standings([budget], now=timezone.now())
    assert (cost.user, cost.reserved) == (dear, Decimal("1.5"))


def test_a_budget_is_for_each_user_or_for_one() -> None:  # M3
    with pytest.raises(IntegrityError), transaction.atomic():
        BudgetFactory(each_user=True, user=UserFactory())


@beside
def test_processes_that_ask_for_one_user_first_share_one_period(start_caller: StartCaller) -> None:  # M3
    budget, user = BudgetFactory(each_user=True, max_requests=5), UserFactory()
    callers = [start_caller(user=user.pk, times=4) for _ in range(3)]
    assert [caller.says() for caller in callers] == ["ready"] * 3
    for caller in callers:
        caller.go()
    assert sum(int(caller.says()) for caller in callers) == 5
    assert [row.user for row in BudgetPeriod.objects.filter(budget=budget)] == [user]


def test_a_call_reserves_its_most_and_settles_what_it_used() -> None:  # M3
    budget, store = BudgetFactory(max_tokens=1_000, max_cost="1"), store_of()
    store.reserve("one", need(600, "0.5"), within_s=60)
    with pytest.raises(BudgetExceeded) as refusal:
        store.reserve("two", need(600, "0.5"), within_s=60)
    shortage = refusal.value.shortage
    assert (shortage.measure, shortage.used, shortage.reserved, shortage.needed) == (Measure.TOKENS, 0, 600, 600)
    assert "1,000 tokens a day: 0 used, 600 reserved by calls in flight, and the next call may" in shortage.message

    store.settle("one", used(150, "0.000000012"))
    assert taken(budget) == [(1, 150, 12)]
    store.reserve("two", need(600, "0.5"), within_s=60)
    assert not store.settle("one", used(10_000)), "who settles twice changes nothing"
    assert taken(budget) == [(2, 750, 500_000_012)]


def test_all_budgets_of_a_call_are_reserved_or_none() -> None:  # M3
    user, configuration = UserFactory(), ConfigurationFactory()
    of_user = BudgetFactory(user=user, max_tokens=1_000)
    of_configuration = BudgetFactory(configuration=configuration, period="month", max_requests=1)
    of_others = BudgetFactory(user=UserFactory(), max_tokens=1)
    BudgetFactory(max_tokens=1, enabled=False)
    store = store_of(configuration_id=configuration.pk, user_id=user.pk)
    store.reserve("one", need(600), within_s=60)
    with pytest.raises(BudgetExceeded) as refusal:
        store.reserve("two", need(100), within_s=60)
    assert refusal.value.shortage.name == of_configuration.name
    assert taken(of_user) == [(1, 600, 0)] and taken(of_configuration) == [(1, 600, 0)] and not taken(of_others)


def test_asking_again_after_a_lost_connection_reserves_once() -> None:  # M3
    budget, store = BudgetFactory(max_tokens=1_000), store_of()
    for _ in range(3):
        store.reserve("one", need(300), within_s=60)
    assert taken(budget) == [(1, 300, 0)] and BudgetReservation.objects.count() == 1


def test_a_cost_of_a_model_without_prices_is_refused_and_its_tokens_are_counted() -> None:  # M3
    tokens = BudgetFactory(max_tokens=1_000)
    store_of().reserve("one", need(100, None), within_s=60)
    store_of().settle("one", Amounts(requests=1, tokens=80, cost=None))
    assert taken(tokens) == [(1, 80, 0)]
    BudgetFactory(name="Money", max_cost="5")
    with pytest.raises(BudgetExceeded, match="“Mini” has no price, so the limit of cost of the budget “Money”"):
        store_of().reserve("two", need(100, None), within_s=60)


def test_more_than_was_reserved_is_counted_as_it_is() -> None:  # M3
    budget, store = BudgetFactory(max_tokens=1_000), store_of()
    store.reserve("one", need(100), within_s=60)
    store.settle("one", used(5_000))
    assert taken(budget) == [(1, 5_000, 0)]
    with pytest.raises(BudgetExceeded) as refusal:
        store.reserve("two", need(1), within_s=60)
    assert "1,000 tokens a day: 5,000 used, and the next call may take up to 1." in refusal.value.shortage.message


def test_a_call_that_may_take_more_than_a_column_holds_is_counted_as_very_much() -> None:  # M3
    limited = BudgetFactory(max_requests=2, max_tokens=None, max_cost=None)
    store = store_of()

    for token in ("one", "two"):
        store.reserve(token, need(10**30, "1" + "0" * 30), within_s=60)
    with pytest.raises(BudgetExceeded, match="2 requests a day"):
        store.reserve("three", need(1), within_s=60)
    store.settle("one", used(10**30, "1" + "0" * 30))
    store.settle("two", used(600, "0.5"))

    assert taken(limited) == [(2, MOST_STORED + 600, MOST_STORED + 500_000_000)]
    strict = BudgetFactory(max_requests=None, max_tokens=2**63 - 1, max_cost=None)
    with pytest.raises(BudgetExceeded):
        store_of().reserve("four", need(10**30), within_s=60)
    assert taken(strict) == [(0, 0, 0)]


def test_each_part_of_a_limit_is_noted_once_in_a_period(caplog: pytest.LogCaptureFixture) -> None:  # M3
    budget, clock = BudgetFactory(name="Small", max_requests=10, max_tokens=1_000), Clock()
    store = store_of(clock, run_id=7)
    found = []
    for number, tokens in enumerate([650, 60, 10, 220, 60]):
        store.reserve(str(number), need(0), within_s=60)
        found.append([(item.measure.value, item.percent) for item in store.settle(str(number), used(tokens))])
    assert found == [[], [("tokens", 70)], [], [("tokens", 90)], [("tokens", 100)]]
    assert "the budget “Small” has come to 90 % of its tokens" in caplog.text
    rows = BudgetCrossing.objects.order_by("percent").values_list("percent", "run_id", "crossed_at")
    assert list(rows) == [(70, 7, NOON), (90, 7, NOON), (100, 7, NOON)]

    clock.now += timedelta(days=1)
    store.reserve("next", need(0), within_s=60)
    crossings = store.settle("next", used(950))
    assert [(item.percent, item.used, item.limit) for item in crossings] == [(70, 950, 1_000), (90, 950, 1_000)]
    assert BudgetPeriod.objects.filter(budget=budget).count() == 2


def test_what_is_reserved_is_no_crossing() -> None:  # M3
    BudgetFactory(max_tokens=1_000)
    store = store_of()
    store.reserve("large", need(900), within_s=60)
    store.reserve("small", need(50), within_s=60)
    assert not store.settle("small", used(10))


def test_a_call_that_is_out_at_midnight_counts_in_the_day_it_began(settings: Settings) -> None:  # M3
    settings.TIME_ZONE = "Europe/Berlin"
    timezone.get_default_timezone.cache_clear()
    clock = Clock(datetime(2026, 3, 28, 22, 59, tzinfo=UTC))
    budget, store = BudgetFactory(max_tokens=1_000), store_of(clock)
    try:
        store.reserve("late", need(900), within_s=60)
        clock.now = datetime(2026, 3, 28, 23, 1, tzinfo=UTC)
        store.reserve("early", need(900), within_s=60)
        store.settle("late", used(400))
        assert taken(budget) == [(1, 900, 0), (1, 400, 0)]
        assert [str(period.begins_on) for period in budget.periods.all()] == ["2026-03-29", "2026-03-28"]
    finally:
        timezone.get_default_timezone.cache_clear()


@pytest.mark.parametrize(
    ("period", "now", "begins", "renews"),
    [
        (Period.DAY, "2026-03-29T00:30:00+01:00", "2026-03-29", "2026-03-30T00:00:00+02:00"),
        (Period.DAY, "2026-10-24T23:59:59+02:00", "2026-10-24", "2026-10-25T00:00:00+02:00"),
        (Period.DAY, "2026-12-31T23:30:00+00:00", "2027-01-01", "2027-01-02T00:00:00+01:00"),
        (Period.MONTH, "2026-02-28T12:00:00+00:00", "2026-02-01", "2026-03-01T00:00:00+01:00"),
        (Period.MONTH, "2026-12-31T12:00:00+00:00", "2026-12-01", "2027-01-01T00:00:00+01:00"),
    ],
)
def test_days_and_months_begin_at_midnight_of_the_site(period: Period, now: str, begins: str, renews: str) -> None:
    zone = ZoneInfo("Europe/Berlin")
    begin = begin_of(period, datetime.fromisoformat(now), zone)
    assert (str(begin), renewal_of(period, begin, zone).isoformat()) == (begins, renews)


def test_what_nobody_settles_is_given_back_but_for_what_was_sent() -> None:  # M3
    budget, clock = BudgetFactory(max_tokens=1_000), Clock()
    store = store_of(clock, run_id=3)
    store.reserve("lost", need(900, sent=40), within_s=60)
    assert not give_back_lost(now=clock.now + timedelta(seconds=60))
    assert give_back_lost(now=clock.now + timedelta(seconds=130)) == 1
    assert taken(budget) == [(1, 40, 0)] and not BudgetReservation.objects.exists()

    store.reserve("lost", need(900, sent=40), within_s=60)
    assert not give_back_lost(now=clock.now, run_id=4)
    assert give_back_lost(now=clock.now, run_id=3) == 1
    assert taken(budget) == [(2, 80, 0)]


def test_a_call_that_does_not_fit_frees_what_is_overdue_first() -> None:  # M3
    budget, clock = BudgetFactory(max_tokens=1_000), Clock()
    store_of(clock).reserve("lost", need(900, sent=40), within_s=60)
    clock.now += timedelta(seconds=130)
    store_of(clock).reserve("next", need(900), within_s=60)
    assert taken(budget) == [(2, 940, 0)]


def test_a_raised_limit_holds_at_once() -> None:  # M3
    budget, store = BudgetFactory(max_tokens=100), store_of()
    with pytest.raises(BudgetExceeded):
        store.reserve("one", need(200), within_s=60)
    Budget.objects.filter(pk=budget.pk).update(max_tokens=200)
    store.reserve("one", need(200), within_s=60)


def test_a_budget_that_is_deleted_in_the_midst_of_a_call_limits_nothing() -> None:
    gone, kept = BudgetFactory(max_tokens=1), BudgetFactory(max_tokens=1_000)

    class Overtaken(DatabaseBudgets):
        def _take(self, *of: Any, **more: Any) -> None:
            gone.delete()
            super()._take(*of, **more)

    Overtaken(configuration_id=None, user_id=None).reserve("one", need(600), within_s=60)
    assert taken(kept) == [(1, 600, 0)]

    kept.delete()
    assert store_of().settle("one", used(150)) == []


@beside
def test_no_limit_is_broken_by_many_processes(start_caller: StartCaller) -> None:  # M3
    budget = BudgetFactory(max_tokens=3_000)
    BudgetFactory(period="month", max_requests=1_000)
    callers = [start_caller(times=15, tokens=100) for _ in range(4)]
    assert [caller.says() for caller in callers] == ["ready"] * 4
    for caller in callers:
        caller.go()
    assert sum(int(caller.says()) for caller in callers) == 30
    assert taken(budget) == [(30, 3_000, 0)]


@beside
def test_settling_in_many_processes_loses_nothing(start_caller: StartCaller) -> None:  # M3
    budget = BudgetFactory(max_tokens=10_000)
    callers = [start_caller(times=10, tokens=200, settle=50) for _ in range(3)]
    for caller in callers:
        assert caller.says() == "ready"
        caller.go()
    assert [caller.says() for caller in callers] == ["10", "10", "10"]
    assert taken(budget) == [(30, 1_500, 0)] and not BudgetReservation.objects.exists()


@beside
def test_a_killed_process_holds_its_reservation_until_it_is_given_back(start_caller: StartCaller) -> None:  # M3
    BudgetFactory(max_tokens=1_000)
    caller = start_caller(tokens=1_000, run=12)
    assert caller.says() == "ready"
    caller.go()
    assert caller.says() == "1"
    caller.kill()
    (standing,) = standings_for(configuration_id=None, user=None, now=timezone.now())
    assert (standing.used, standing.reserved, standing.left) == (0, 1_000, 0)
    assert give_back_lost(now=timezone.now(), run_id=12) == 1
    (standing,) = standings_for(configuration_id=None, user=None, now=timezone.now())
    assert (standing.reserved, standing.left) == (0, 1_000)


def test_how_many_queries_budgets_take(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(1):
        assert not standings_for(configuration_id=None, user=None, now=NOON)
    BudgetFactory.create_batch(3, max_tokens=1_000, max_cost="2")
    with django_assert_num_queries(2):
        assert len(standings_for(configuration_id=None, user=None, now=NOON)) == 6


def test_amounts_are_spelled_with_their_unit() -> None:
    assert spelled(Measure.REQUESTS, 1) == "1 request" and spelled(Measure.TOKENS, 12_000) == "12,000 tokens"
    assert spelled(Measure.COST, Decimal("4.8")) == "$4.80" and spelled(Measure.COST, Decimal("0.03125")) == "$0.0312"
    assert crossed(69, 91, 100) == [70, 90] and not crossed(70, 71, 100)
