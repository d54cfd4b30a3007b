"""Runs within budgets: what is told before, at and after the end of one, and that it goes on once there is room."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from llmcore.budgets.database import DatabaseBudgets
from llmcore.findings import RunView, find
from llmcore.models import Budget, BudgetCrossing, BudgetReservation, UsageRecord
from llmcore.providers.scripted.scenario import Turn
from llmcore.site_budgets import standings
from llmcore.tools.base import Effect, Tool
from llmcore.trace import RunStep, StepKind
from playground.claims import claim_run
from playground.models import Run
from playground.privacy import PrivacyLevel
from playground.segments import next_segment
from playground.services.continue_run import continue_run, requeue_interrupted
from playground.services.drive_run import drive_run
from playground.services.preview_run import preview_run
from playground.services.start_run import RunRequest, write_run
from playground.services.sweep import sweep
from tests.factories import BudgetFactory, ConfigurationFactory, LanguageModelFactory, UserFactory
from tests.llmcore.budget_callers import need, used
from tests.playground.driven import Script, call, in_background, script, site_tool, wait_for
from tests.playground.workers import kinds

pytestmark = pytest.mark.django_db(transaction=True)

USED = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
ASKING = Turn(tool_calls=(call("look"),), usage=USED)
HELLO = Turn(text="Good day.", usage=USED)
# Of a server that counts nothing.
SILENT = (Turn(tool_calls=(call("look"),), usage={}), Turn(text="Good day.", usage={}))
NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.fixture(autouse=True)
def look() -> Iterator[None]:
    tool = Tool(
        name="look",
        description="Looks.",
        parameters=NO_ARGUMENTS,
        run=lambda: "Nothing there.",
        group="test",
        effect=Effect.READ_ONLY,
    )
    with site_tool(tool):
        yield


@pytest.fixture
def model() -> Iterator[Script]:
    """A model that looks first and then answers, 120 tokens each."""
    with script(ASKING, HELLO, tool_groups=["test"], max_tokens=60) as model:
        yield model


def test_a_run_ends_before_the_call_that_does_not_fit_and_goes_on_when_it_does(model: Script) -> None:  # M3, L14
    budget = BudgetFactory(name="Per day", max_requests=1)
    run = model.run()
    assert (run.status, run.reason, run.rounds, run.tool_calls) == ("incomplete", "budget_exhausted", 2, 1)
    assert "The budget “Per day” allows 1 request a day: 1 used, and the next call may take up to 1." in run.detail
    assert "It begins anew on" in run.detail and "at 00:00 (UTC)" in run.detail
    # All that was, is kept, and the call that wasn't made is told.
    of_first = ["request", "context", "response", "tool_call", "tool_result"]
    assert kinds(run) == [*of_first, "request", "context", "response"]
    assert len(model.model.requests) == UsageRecord.objects.count() == 1
    assert run.continuable

    Budget.objects.filter(pk=budget.pk).update(max_requests=5)
    assert continue_run(run=run, by=None)
    run = model.drive(run)
    assert (run.status, run.answer, run.rounds, run.tool_calls) == ("completed", "Good day.", 2, 1)
    assert [request.json["messages"][-1]["role"] for request in model.model.requests] == ["user", "tool"]
    (standing,) = standings([budget], now=timezone.now())
    assert (standing.used, standing.reserved) == (2, 0)


def test_the_page_of_such_a_run_says_what_to_do(model: Script, client: Client) -> None:  # M3
    BudgetFactory(name="<b>Mine</b>", max_requests=1)
    user = UserFactory(is_superuser=True)
    client.force_login(user)
    run = model.drive(write_run(request=model.request(), by=user))
    page = client.get(reverse("playground:run", args=[run.pk])).content.decode()
    assert "Budget used up" in page and "Raise the budget, or wait until it begins anew" in page
    assert "Continue from round 2" in page and "The budget “&lt;b&gt;Mine&lt;/b&gt;” allows 1 request" in page
    assert "not sent" in page and "<b>Mine" not in page


def test_a_budget_without_room_for_one_call_ends_a_run_before_round_one(model: Script) -> None:  # M3
    BudgetFactory(name="Tiny", max_tokens=10)
    run = model.run()
    assert (run.reason, len(model.model.requests)) == ("budget_exhausted", 0)
    assert not BudgetReservation.objects.exists()


def test_a_run_that_brings_a_budget_near_its_limit_says_so(model: Script) -> None:  # M3, F
    BudgetFactory(name="Per day", max_tokens=400, max_requests=2)
    run = model.run()
    assert run.status == "completed"
    found = [item for item in run.findings if item["id"] == "budget_near_limit"]
    assert [item["title"] for item in found] == ["This run brought today's budget “Per day” to 100 % of its requests"]
    assert "2 requests of 2 requests are used" in found[0]["detail"]
    assert {row.run_id for row in BudgetCrossing.objects.all()} == {run.pk}
    assert BudgetCrossing.objects.count() == 3, "70 and 90 % were passed by the same call"


def test_a_user_or_configuration_counts_in_budgets_of_their_own(model: Script) -> None:  # M3
    one, other = UserFactory(), UserFactory()
    mine = BudgetFactory(user=one, max_requests=10)
    theirs = BudgetFactory(user=other, max_requests=10)
    of_configuration = BudgetFactory(configuration=model.configuration, period="month", max_cost="1", max_tokens=None)
    model.configuration.model.input_price, model.configuration.model.output_price = Decimal(2), Decimal(10)
    model.configuration.model.save()
    run = model.drive(write_run(request=model.request(), by=one))
    assert run.status == "completed"
    used = [standing.used for standing in standings([mine, theirs, of_configuration], now=timezone.now())]
    assert used == [2, 0, Decimal("0.0008")]


def test_the_ceiling_of_a_run_counts_what_it_used_before(model: Script) -> None:  # M3
    model.configuration.max_run_tokens = 200
    model.configuration.save()
    run = model.run()
    assert run.reason == "budget_exhausted"
    assert "One run may take 200 tokens: 120 used" in run.detail
    # As it stands, it is over at once again.
    assert requeue_interrupted(run)
    assert model.drive(run).reason == "budget_exhausted"
    assert len(model.model.requests) == 1
    model.configuration.max_run_tokens = 2_000
    model.configuration.save()
    assert requeue_interrupted(run)
    assert model.drive(run).status == "completed"


@pytest.mark.parametrize("lost", ["silent", "worker"])
def test_the_ceiling_of_a_run_counts_what_nobody_reported_before(lost: str) -> None:  # M1, M3
    """A server that counts nothing, and a worker that was killed before the answer: what was sent is gone."""
    with script(*SILENT, max_tokens=50, max_run_tokens=100_000, tool_groups=["test"]) as model:
        for price in ("input_price", "output_price"):
            setattr(model.configuration.model, price, Decimal(2))
        model.configuration.model.save()
        BudgetFactory(max_requests=1)
        run = model.run(prompt="word " * 300)
        assert run.reason == "budget_exhausted" and UsageRecord.objects.get().input_tokens is None
        if lost == "worker":
            run.steps.filter(sequence__gt=2).delete()
        segment = next_segment(run)
        before = segment.unreported()
        assert 300 < before.tokens < 700 and before.cost == before.tokens * Decimal(2) / 1_000_000

        Budget.objects.all().delete()
        model.configuration.max_run_tokens = before.tokens + 400
        model.configuration.save()
        assert requeue_interrupted(run)
        assert model.drive(run).reason == "budget_exhausted"
    assert f"{before.tokens:,} used" in run.detail


def test_a_model_without_prices_keeps_no_budget_of_cost(model: Script) -> None:  # M3
    BudgetFactory(name="Money", max_cost=100)
    run = model.run()
    assert run.reason == "budget_exhausted" and "has no price" in run.detail
    assert run.error["hint"].startswith("Enter the model's prices (0 if it is free)")


def test_a_fallback_reserves_anew_at_its_own_price() -> None:  # M3
    with script(Turn(status=503), max_tokens=60) as away, script(HELLO) as model:
        cheap = model.configuration.model
        away.configuration.fallbacks.add(cheap, through_defaults={"position": 1})
        budget = BudgetFactory(max_cost="0.0050")
        for row, price in ((away.configuration.model, Decimal(20)), (cheap, Decimal(1))):
            row.input_price = row.output_price = price
            row.save()
        run = away.run()
    assert (run.status, run.answer) == ("completed", "Good day.")
    (standing,) = standings([budget], now=timezone.now())
    assert standing.used == 120 * Decimal(1) / 1_000_000


def test_what_a_lost_worker_had_reserved_is_given_back() -> None:  # M3, D3
    budget = BudgetFactory(max_tokens=10_000)
    run = write_run(request=RunRequest(configuration=ConfigurationFactory().slug, prompt="Hello?"), by=None)
    assert claim_run(run_id=run.pk, worker="lost", now=timezone.now())
    store = DatabaseBudgets(configuration_id=None, user_id=None, run_id=run.pk)
    store.reserve("lost", need(900, sent=40), within_s=600)
    sweep(now=timezone.now())
    assert BudgetReservation.objects.exists(), "its worker is heard of"

    Run.objects.filter(pk=run.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
    sweep(now=timezone.now())
    (standing,) = standings([budget], now=timezone.now())
    # What was sent is gone.
    assert (standing.reserved, standing.used) == (0, 40)
    assert not store.settle("lost", used(500)), "who was lost changes nothing afterwards"
    (standing,) = standings([budget], now=timezone.now())
    assert standing.used == 40


def test_a_cancelled_call_counts_what_was_sent() -> None:  # M1, M3
    slow = Turn(text="Good day to you all.", chunk_chars=1, chunk_delay_s=0.5)
    budget = BudgetFactory(max_tokens=10_000)
    with script(slow, max_tokens=60) as model:
        run = write_run(request=model.request(), by=None)
        with in_background(lambda: drive_run(run_id=run.pk, worker="test")):
            wait_for(lambda: model.model.requests)
            Run.objects.filter(pk=run.pk).update(cancel_requested_at=timezone.now())
    (standing,) = standings([budget], now=timezone.now())
    assert standing.reserved == 0 and 0 < standing.used < 100


def test_the_preview_says_what_may_not_fit() -> None:  # M3
    model = LanguageModelFactory(max_output_tokens=1_000, input_price=Decimal(2), output_price=Decimal(10))
    configuration = ConfigurationFactory(model=model, max_rounds=5)
    user = UserFactory(is_superuser=True)

    def told() -> list[tuple[str, str, str]]:
        request = RunRequest(configuration=configuration.slug, prompt="Hello")
        return [(n.id, n.title, n.detail) for n in preview_run(request=request, user=user).notices]

    assert not told()
    budget = BudgetFactory(name="Per day", max_cost="0.0150", user=user)
    assert not told()
    Budget.objects.filter(pk=budget.pk).update(max_cost="0.0101", max_requests=1)
    configuration.max_run_tokens = 500
    configuration.save()
    ((id, title, detail),) = told()
    assert id == "run_limit_too_low" and "may take no more than 500 tokens" in title
    configuration.max_run_tokens = None
    configuration.save()

    Budget.objects.filter(pk=budget.pk).update(max_cost="0.0010")
    ((id, title, detail),) = told()
    assert (
        id == "budget_used_up"
        and "doesn't fit the budget “Per day”" in title
        and "allows $0.0010 a day: $0.00 used" in detail
    )
    model.input_price = model.output_price = None
    model.save()
    ((id, title, detail),) = told()
    assert id == "budget_used_up" and "has no price" in detail


def test_the_preview_says_what_a_run_may_cost_and_what_is_left() -> None:  # M3
    model = LanguageModelFactory(
        max_output_tokens=1_000, supports_tools=True, input_price=Decimal(2), output_price=Decimal(10)
    )
    configuration = ConfigurationFactory(model=model, max_rounds=5, tool_groups=["test"])
    BudgetFactory(name="Per day", max_cost="0.02")
    seen = preview_run(
        request=RunRequest(configuration=configuration.slug, prompt="Hello"), user=UserFactory(is_superuser=True)
    )
    (notice,) = [notice for notice in seen.notices if notice.id == "budget_may_end_run"]
    assert notice.title.startswith("This run may cost up to $0.0")
    assert notice.title.endswith("$0.0200 of today's budget “Per day” are left")


def test_a_run_over_its_budget_keeps_for_a_day_what_it_needs_to_go_on(model: Script) -> None:  # R2
    BudgetFactory(max_requests=1)
    user = UserFactory()
    run = write_run(request=model.request(), by=user)
    Run.objects.filter(pk=run.pk).update(privacy_level=PrivacyLevel.METADATA)
    run = model.drive(run)
    assert run.continuable and run.detail


def test_a_summary_that_brings_a_budget_near_its_limit_is_told() -> None:  # M3, C2, F

    crossing = {
        "name": "Per day",
        "period": "month",
        "measure": "cost",
        "percent": 90,
        "limit": "5",
        "used": "4.6",
        "renews_at": "2026-12-01T00:00:00+00:00",
    }
    step = RunStep(
        sequence=4, round=3, kind=StepKind.COMPACTION, started_ms=0, data={"problem": None, "budgets": [crossing]}
    )
    (finding,) = [found for found in find(RunView(steps=[step])) if found.id == "budget_near_limit"]
    assert finding.title == "This run brought this month's budget “Per day” to 90 % of its cost"
    assert finding.detail.startswith("$4.60 of $5.00 are used.") and "1 December 2026" in finding.detail
    assert (finding.sequence, finding.tab, finding.severity) == (4, "summary", "warning")
