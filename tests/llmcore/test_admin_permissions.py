"""Who may see and do what in the admin of the stored configuration."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from llmcore.messages import ModelResponse
from llmcore.models import UsageRecord
from llmcore.providers.base import ModelCall
from llmcore.site_usage import DatabaseMeter
from llmcore.store import load_configuration
from tests.factories import (
    ConfigurationFactory,
    LanguageModelFactory,
    MCPServerFactory,
    ProviderFactory,
    SkillFactory,
    SnippetFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db
KEY = "sk-rights-0123456789"
MAKE: dict[str, Any] = {
    "provider": lambda: ProviderFactory(key=KEY),
    "languagemodel": LanguageModelFactory,
    "mcpserver": lambda: MCPServerFactory(key=KEY),
    "configuration": ConfigurationFactory,
    "skill": SkillFactory,
    "snippet": SnippetFactory,
    "usagerecord": lambda: metered(),
}
EDITED = [name for name in MAKE if name != "usagerecord"]


def metered() -> UsageRecord:
    row = ConfigurationFactory()
    value = load_configuration(row)
    call = ModelCall(provider=value.provider, model=value.model)
    DatabaseMeter(run_id=1, user=UserFactory(), configuration_id=row.pk).record(call, ModelResponse(), None)
    return UsageRecord.objects.latest("pk")


def statuses(client: Client, name: str) -> dict[str, tuple[int, int]]:
    """The status of each page of a model, read and sent to."""
    row = MAKE[name]()
    pages = {
        "list": reverse(f"admin:llmcore_{name}_changelist"),
        "add": reverse(f"admin:llmcore_{name}_add"),
        "change": reverse(f"admin:llmcore_{name}_change", args=[row.pk]),
        "delete": reverse(f"admin:llmcore_{name}_delete", args=[row.pk]),
    }
    return {page: (client.get(url).status_code, client.post(url, {}).status_code) for page, url in pages.items()}


@pytest.mark.parametrize("name", list(MAKE))
def test_who_is_not_logged_in_is_sent_to_the_login(client: Client, name: str) -> None:
    assert set(statuses(client, name).values()) == {(302, 302)}


@pytest.mark.parametrize("name", list(MAKE))
def test_who_is_not_staff_is_sent_to_the_login(client: Client, name: str) -> None:
    client.force_login(UserFactory(is_staff=False, permissions=[f"llmcore.change_{name}"]))
    assert set(statuses(client, name).values()) == {(302, 302)}


@pytest.mark.parametrize("name", list(MAKE))
def test_staff_without_rights_sees_nothing(client: Client, name: str) -> None:
    client.force_login(UserFactory())
    assert set(statuses(client, name).values()) == {(403, 403)}


@pytest.mark.parametrize("name", EDITED)
@pytest.mark.parametrize(
    ("right", "expected"),
    [
        ("view", {"list": 200, "add": 403, "change": 200, "delete": 403}),
        ("add", {"list": 403, "add": 200, "change": 403, "delete": 403}),
        ("change", {"list": 200, "add": 403, "change": 200, "delete": 403}),
        ("delete", {"list": 403, "add": 403, "change": 403, "delete": 200}),
    ],
)
def test_each_right_opens_its_own_pages(client: Client, name: str, right: str, expected: dict[str, int]) -> None:
    client.force_login(UserFactory(permissions=[f"llmcore.{right}_{name}"]))
    found = statuses(client, name)
    assert {page: read for page, (read, _sent) in found.items()} == expected
    if right == "view":
        assert found["change"][1] == 403


@pytest.mark.parametrize("name", EDITED)
def test_who_may_only_look_gets_no_field_to_fill_in(client: Client, name: str) -> None:
    client.force_login(UserFactory(permissions=[f"llmcore.view_{name}"]))
    page = client.get(reverse(f"admin:llmcore_{name}_change", args=[MAKE[name]().pk])).content.decode()
    assert 'name="_save"' not in page and "<textarea" not in page and 'type="password"' not in page
    assert KEY not in page


def test_usage_is_read_only_even_for_a_superuser(client: Client) -> None:
    client.force_login(UserFactory(is_superuser=True))
    found = statuses(client, "usagerecord")
    assert found == {"list": (200, 200), "add": (403, 403), "change": (200, 403), "delete": (403, 403)}


def test_the_list_of_usage_takes_the_same_queries_for_any_number(
    client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    client.force_login(UserFactory(is_superuser=True))
    for _number in range(10):
        metered()
    with django_assert_max_num_queries(6):
        page = client.get(reverse("admin:llmcore_usagerecord_changelist"), {"failed": "no"})
    assert len(page.context["cl"].result_list) == 10


def test_the_list_of_usage_shows_figures_as_people_read_them(client: Client) -> None:
    client.force_login(UserFactory(is_superuser=True))
    at = datetime(2026, 11, 30, 20, 31, 5, tzinfo=UTC)
    usage = {"input_tokens": 12_345, "cost": Decimal("0.000461300000"), "created_at": at}
    UsageRecord.objects.filter(pk=metered().pk).update(**usage)

    page = client.get(reverse("admin:llmcore_usagerecord_changelist")).content.decode()

    assert '<td class="field-input">12,345</td>' in page and '<td class="field-price">$0.0004613</td>' in page
    assert '<td class="field-output">–</td>' in page and ">30 Nov 2026, 20:31:05</a>" in page
    assert '<td class="field-error">–</td>' in page


def test_the_sections_stand_under_one_heading_in_the_admin(client: Client) -> None:
    client.force_login(UserFactory(is_superuser=True))
    apps = {app["app_label"]: app for app in client.get(reverse("admin:index")).context["app_list"]}
    assert apps["llmcore"]["name"] == "LLM"
    names = [str(model["name"]) for model in apps["llmcore"]["models"]]
    own = ["Configurations", "Models", "Prompt snippets", "Providers", "Skills", "Tools", "Usage records"]
    assert [name for name in names if name in own] == own
