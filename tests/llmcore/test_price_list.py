"""The prices that are shipped: exact, dated, with their source, and for the service's own address only."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client
from django.urls import reverse

from llmcore.configuration import LanguageModel as ModelValue
from llmcore.enrollment.rows import new_model
from llmcore.models import LanguageModel
from llmcore.providers import price_list
from llmcore.providers.json_text import decode_json
from llmcore.providers.price_list import shipped_prices, usual_prices
from llmcore.providers.registry import adapters
from llmcore.usage import Prices, Usage
from tests.factories import LanguageModelFactory, ProviderFactory, UserFactory

ANTHROPIC = "https://api.anthropic.com/v1"
OPUS = {"adapter": "anthropic", "base_url": ANTHROPIC}
LIST = "admin:llmcore_languagemodel_changelist"


def listed() -> Iterator[tuple[str, Any]]:
    for file in files(price_list).iterdir():
        if file.name.endswith(".json"):
            yield file.name, decode_json(file.read_bytes())


@pytest.mark.parametrize(("name", "data"), list(listed()), ids=lambda value: value if isinstance(value, str) else "")
def test_each_list_says_for_whom_since_when_and_where_from(name: str, data: Any) -> None:
    assert date.fromisoformat(data["as_of"]) <= date(2026, 11, 30)
    assert data["source"].startswith("https://") and data["recorded_by"]
    for adapter in data["adapters"]:
        assert urlsplit(adapters()[adapter].default_base_url).hostname == data["host"]


@pytest.mark.parametrize(
    ("adapter", "name"), [(a, name) for _, data in listed() for a in data["adapters"] for name in data["models"]]
)
def test_each_price_is_whole_and_sensible(adapter: str, name: str) -> None:
    found = usual_prices(adapter, name)
    assert found is not None
    prices = found.prices
    if prices.input is None:
        assert found.note and prices == Prices()
        return
    assert prices.output is not None and Decimal(0) < prices.input <= prices.output < 1_000
    assert prices.cache_read is None or prices.cache_read <= prices.input
    assert prices.cache_creation is None or prices.cache_creation >= prices.input
    # As many decimals as the columns keep.
    assert all(-value.as_tuple().exponent <= 6 for value in (prices.input, prices.output))  # type: ignore[operator]


def test_a_price_is_exact() -> None:  # M2
    found = shipped_prices("anthropic", ANTHROPIC, "claude-haiku-4-5")
    assert found is not None

    cost = found.prices.cost(
        Usage(input_tokens=3, output_tokens=1, cache_read_input_tokens=1, cache_creation_input_tokens=1)
    )
    assert cost == Decimal("0.00000735")


@pytest.mark.parametrize(
    ("adapter", "base_url", "name", "known"),
    [
        ("openai_chat", "https://api.openai.com/v1", "gpt-5-mini", True),
        ("openai_responses", "https://api.openai.com/v1", "gpt-5-mini-2025-08-07", True),
        ("anthropic", ANTHROPIC, "claude-haiku-4-5-20251001", True),
        ("groq", "https://api.groq.com/openai/v1", "openai/gpt-oss-120b", True),
        ("openai_chat", "https://proxy.example/v1", "gpt-5-mini", False),
        ("openai_compat", "https://api.openai.com/v1", "gpt-5-mini", False),
        ("anthropic", ANTHROPIC, "claude-mythos-5", False),
        ("anthropic", ANTHROPIC, "claude-haiku-4-5-fast", False),
        ("openai_chat", "https://api.openai.com/v1", "gpt-5-mini-high", False),
        ("mistral", "https://api.mistral.ai/v1", "mistral-large-latest", False),
        ("openrouter", "https://openrouter.ai/api/v1", "openai/gpt-5-mini", False),
    ],
)
def test_only_what_is_known_for_sure_has_a_price(adapter: str, base_url: str, name: str, known: bool) -> None:
    assert (shipped_prices(adapter, base_url, name) is not None) is known


@pytest.mark.django_db
def test_a_model_that_is_entered_by_discovery_takes_the_shipped_price_unless_its_provider_tells_one() -> None:
    provider = ProviderFactory(**OPUS)
    own = Prices(input=Decimal(7), output=Decimal(8))

    plain = new_model(provider, ModelValue(name="claude-opus-5"))
    told = new_model(provider, ModelValue(name="claude-sonnet-5", prices=own))
    unknown = new_model(provider, ModelValue(name="claude-next"))

    assert (plain.input_price, plain.output_price, plain.cache_creation_price) == (5, 25, Decimal("6.25"))
    assert told.prices == own
    assert unknown.prices == Prices()


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(UserFactory(is_superuser=True))
    return client


def page_of(admin: Client, row: LanguageModel) -> str:
    return admin.get(reverse("admin:llmcore_languagemodel_change", args=[row.pk])).content.decode()


@pytest.mark.django_db
def test_the_model_shows_the_shipped_prices_with_date_and_source(admin: Client) -> None:
    provider = ProviderFactory(**OPUS)
    own = LanguageModelFactory(provider=provider, name="claude-opus-5", input_price=4, output_price=20)
    same = LanguageModelFactory(provider=provider, name="claude-haiku-4-5", input_price=1, output_price=5)
    same.prices = same.shipped_prices.prices
    same.save()
    other = LanguageModelFactory(provider=provider, name="claude-next")

    shown = page_of(admin, own)
    assert "Dollars per million: input 5, output 25, cached read 0.5, cache write 6.25. Your own ones count." in shown
    assert "As of 26 October 2026, from" in shown
    assert 'href="https://www.anthropic.com/pricing#api"' in shown
    assert "These ones." in page_of(admin, same)
    assert "None for this model at this address" in page_of(admin, other)
    assert (
        "Shown here when the model is saved." in admin.get(reverse("admin:llmcore_languagemodel_add")).content.decode()
    )
    assert "4 / 20" in admin.get(reverse(LIST)).content.decode()


@pytest.mark.django_db
def test_shipped_prices_are_taken_for_the_models_that_are_chosen(admin: Client) -> None:
    provider = ProviderFactory(**OPUS)
    chosen = LanguageModelFactory(provider=provider, name="claude-opus-5", input_price=4, output_price=20)
    left = LanguageModelFactory(provider=provider, name="claude-sonnet-5", input_price=4, output_price=20)
    unknown = LanguageModelFactory(provider=provider, name="claude-next")

    response = admin.post(
        reverse(LIST), {"action": "take_shipped_prices", "_selected_action": [chosen.pk, unknown.pk]}, follow=True
    )

    html = response.content.decode()
    assert "Now at the shipped prices: claude-opus-5." in html
    assert "No prices are shipped for claude-next." in html
    for row in (chosen, left):
        row.refresh_from_db()
    assert (chosen.input_price, left.input_price) == (5, 4)
