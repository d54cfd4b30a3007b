"""The budget pages: how budgets stand in bars and words, when they came near, and what is wrong with a new one."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from llmcore.budgets.database import DatabaseBudgets
from llmcore.models import Budget, Configuration
from tests.factories import BudgetFactory, ConfigurationFactory, UserFactory
from tests.llmcore.budget_callers import need, used

pytestmark = pytest.mark.django_db
LIST = "admin:llmcore_budget_changelist"
ADD = "admin:llmcore_budget_add"


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(UserFactory(is_superuser=True))
    return client


def page_of(client: Client, name: str, *args: object) -> str:
    return client.get(reverse(name, args=args)).content.decode()


def use(tokens: int, cost: str = "0") -> None:
    store = DatabaseBudgets(configuration_id=None, user_id=None, run_id=7)
    store.reserve("one", need(tokens, cost), within_s=60)
    store.settle("one", used(tokens, cost))


def test_the_list_says_how_budgets_stand(admin: Client, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    BudgetFactory(name="Site", max_tokens=1_000, max_cost="2")
    BudgetFactory(name="Idle", configuration=ConfigurationFactory(name="Support"), user=UserFactory(username="kim"))
    use(750, "0.5")
    DatabaseBudgets(configuration_id=None, user_id=None).reserve("two", need(100), within_s=60)
    page = page_of(admin, LIST)
    assert "750 of 1,000 tokens (75 %), 100 tokens reserved" in page
    assert (
        "$0.5000 of $2.00 (25 %)" in page
        and '<meter min="0" max="100" low="70" high="90" optimum="0" value="75"' in page
    )
    assert "Support, kim" in page and "the whole site" in page
    BudgetFactory.create_batch(8, max_requests=5)
    with django_assert_max_num_queries(9):
        assert "0 of 5 requests (0 %)" in page_of(admin, LIST)


def test_a_budget_for_each_user_shows_who_used_most(
    admin: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    budget = BudgetFactory(name="Own", each_user=True, max_tokens=1_000)
    for number in range(5):
        store = DatabaseBudgets(configuration_id=None, user_id=UserFactory(username=f"kim-{number}").pk)
        store.reserve(f"call {number}", need(900), within_s=60)
        store.settle(f"call {number}", used(100 * number + 350))
    with django_assert_max_num_queries(9):
        page = page_of(admin, LIST)
    assert "each user" in page and "those who used most" in page
    assert [name for name in range(5) if f"kim-{name}: " in page] == [2, 3, 4]
    page = page_of(admin, "admin:llmcore_budget_change", budget.pk)
    assert "kim-0: 350 of 1,000 tokens (35 %)" in page and "70 % of tokens for kim-4" in page


def test_the_user_of_a_budget_is_searched_for_by_those_who_may_look_at_users(admin: Client, client: Client) -> None:
    assert 'data-field-name="user"' in page_of(admin, ADD)
    kim = UserFactory(username="kim")
    found = admin.get(reverse("admin:autocomplete"), {
        "app_label": "llmcore", "model_name": "budget", "field_name": "user", "term": "ki",
    })  # fmt: skip
    assert found.json()["results"] == [{"id": str(kim.pk), "text": "kim"}]
    data = {"name": "New", "period": "day", "max_tokens": "5", "enabled": "on", "user": str(kim.pk), "each_user": "on"}
    assert "Either for each user, or for the one that is named." in admin.post(reverse(ADD), data).content.decode()
    assert not Budget.objects.exists()

    rights = ["llmcore.view_budget", "llmcore.add_budget"]
    client.force_login(UserFactory(is_staff=True, permissions=rights))
    page = page_of(client, ADD)
    assert 'data-field-name="user"' not in page and 'name="user"' in page


def test_a_budget_can_be_switched_off_in_the_list(admin: Client) -> None:
    budget = BudgetFactory(max_tokens=10)
    data = {"form-TOTAL_FORMS": 1, "form-INITIAL_FORMS": 1, "form-0-id": budget.pk, "_save": "Save"}
    assert admin.post(reverse(LIST), data).status_code == 302
    assert not Budget.objects.get().enabled


def test_the_form_says_when_the_budget_came_near_its_limit(admin: Client) -> None:
    budget = BudgetFactory(max_tokens=1_000)
    assert "70, 90 and 100 % are noted here" in page_of(admin, "admin:llmcore_budget_change", budget.pk)
    use(950)
    page = page_of(admin, "admin:llmcore_budget_change", budget.pk)
    assert "90 % of tokens by run 7" in page and f"{timezone.localdate():%Y-%m-%d}" in page


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ({}, "Set at least one limit: requests, tokens or cost."),
        ({"max_tokens": "0"}, "greater than or equal to 1"),
        ({"max_cost": "-3"}, "greater than or equal to 0.0001"),
        ({"max_requests": "5", "period": "week"}, "Select a valid choice"),
    ],
)
def test_a_budget_that_limits_nothing_is_refused(admin: Client, data: dict[str, str], error: str) -> None:
    response = admin.post(reverse(ADD), {"name": "New", "period": "day", "enabled": "on", **data})
    assert error in response.content.decode() and not Budget.objects.exists()


def test_a_new_budget_is_saved(admin: Client) -> None:
    data = {"name": "New", "period": "month", "max_cost": "12.50", "enabled": "on"}
    assert admin.post(reverse(ADD), data).status_code == 302
    assert str(Budget.objects.get().allowance.cost) in ("12.5", "12.5000")


def test_budgets_need_their_permissions(client: Client) -> None:
    budget = BudgetFactory(max_tokens=10)
    client.force_login(UserFactory(is_staff=True))
    assert client.get(reverse(LIST)).status_code == 403
    client.force_login(UserFactory(is_staff=True, permissions=["llmcore.view_budget"]))
    assert "0 of 10 tokens" in page_of(client, LIST)
    assert client.post(reverse("admin:llmcore_budget_change", args=[budget.pk]), {"name": "x"}).status_code == 403


def test_a_limit_of_runs_is_a_version_of_its_configuration() -> None:
    configuration = ConfigurationFactory(max_run_tokens=5_000, max_run_cost="1.5")
    number = Configuration.objects.get(pk=configuration.pk).keep_version().number
    again = Configuration.objects.get(pk=configuration.pk)
    again.save()
    assert again.version == number, "1.5 and 1.5000 are the same"
    assert again.keep_version().fields["max_run_cost"] == "1.5"
