"""Prices that depend on the length of the prompt: what a call costs, what is unknown, how they are entered (M2)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from llmcore import store
from llmcore.configuration import LanguageModel as ModelValue
from llmcore.context.forecast import forecast
from llmcore.metering.affording import need_of
from llmcore.models import LanguageModel
from llmcore.providers.base import ModelCall
from llmcore.usage import Prices, PriceTier, Usage
from tests.factories import ConfigurationFactory, LanguageModelFactory, ProviderFactory, UserFactory
from tests.llmcore.prompt_packs import configuration_of

LONG = Prices(input=Decimal("2.5"), cache_read=Decimal("0.25"), output=Decimal(15))
TIERED = Prices(
    input=Decimal("1.25"),
    cache_read=Decimal("0.125"),
    output=Decimal(10),
    tiers=(PriceTier(above=200_000, prices=LONG), PriceTier(above=1_000_000)),
)


def usage(prompt: int, cached: int = 0, answer: int = 1_000) -> Usage:
    return Usage(input_tokens=prompt, cache_read_input_tokens=cached, output_tokens=answer)


@pytest.mark.parametrize(
    ("prompt", "cached", "cost"),
    [
        (200_000, 0, "0.26"),
        # From one token more on the whole call costs the other prices, its answer too.
        (200_001, 0, "0.5150025"),
        # Cached tokens belong to the prompt.
        (200_001, 200_000, "0.0650025"),
        (1_000_000, 0, "2.515"),
        (1_000_001, 0, None),
    ],
)
def test_the_length_of_the_prompt_decides_about_the_whole_call(prompt: int, cached: int, cost: str | None) -> None:
    assert TIERED.cost(usage(prompt, cached)) == (cost and Decimal(cost))


def test_a_tier_is_exact_and_survives_json() -> None:
    data = TIERED.to_json()

    assert data["tiers"] == [
        {"above": 200_000, "input": "2.5", "cache_read": "0.25", "output": "15"},
        {"above": 1_000_000},
    ]
    assert Prices.from_json(data) == TIERED


def test_prices_without_tiers_are_stored_as_ever() -> None:
    old = {"input": "1.25", "cache_read": None, "cache_creation": None, "output": "10"}

    assert Prices.from_json(old).to_json() == old and Prices.from_json({}) == Prices()


@given(prompt=st.integers(0, 2_000_000), more=st.integers(0, 100_000), answer=st.integers(1, 9_000))
def test_what_is_reserved_is_never_less_than_a_shorter_call_costs(prompt: int, more: int, answer: int) -> None:
    route = configuration_of(prices=TIERED, max_output_tokens=answer).routes[0]
    need = need_of(ModelCall(provider=route.provider, model=route.model), input_tokens=prompt + more, body_bytes=9)

    cost = TIERED.cost(usage(prompt, answer=answer))
    # A price that is unknown may be any.
    assert (need.most.cost is None) == (prompt + more > 1_000_000)
    assert need.most.cost is None or (cost is not None and need.most.cost >= cost)


def test_a_forecast_prices_each_call_by_its_own_prompt() -> None:
    found = forecast(TIERED, prompt_tokens=150_000, answer_tokens=100_000, window=None, calls=2)
    assert found.most == Decimal("0.1875") + Decimal("0.625") + Decimal(1) + Decimal("1.5")
    unknown = forecast(TIERED, prompt_tokens=150_000, answer_tokens=900_000, window=None, calls=2)
    assert unknown.most is None and unknown.least == Decimal("0.1875")


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(UserFactory(is_superuser=True))
    return client


def form_of(row: LanguageModel, *rows: dict[str, str], **changes: Any) -> dict[str, Any]:
    sent = {
        "provider": row.provider_id,
        "name": row.name,
        "enabled": "on",
        "thinking_control": "effort",
        "input_price": "1.25",
        "output_price": "10",
        **changes,
    }
    for number, tier in enumerate(({}, *rows), start=0):
        sent |= {f"price_tiers-{number}-{column}": value for column, value in tier.items()}
    return {"price_tiers-1-above": "", **sent}


@pytest.mark.django_db
def test_tiers_are_entered_at_the_model_and_reach_its_runs(admin: Client) -> None:
    row = ConfigurationFactory().model
    url = reverse("admin:llmcore_languagemodel_change", args=[row.pk])
    # In any order, and a row may be left empty.
    rows = ({"above": "1000000"}, {"above": ""}, {"above": "200000", "input": "2.50", "output": "15"})

    response = admin.post(url, form_of(row, *rows))

    assert response.status_code == 302, response.content.decode()
    row.refresh_from_db()
    assert [tier.above for tier in row.prices.tiers] == [200_000, 1_000_000]
    loaded = store.load_configuration(row.configurations.get().slug).model.prices
    assert loaded.of_prompt(200_001).input == Decimal("2.5") and not loaded.of_prompt(1_000_001).known
    page = admin.get(url).content.decode()
    assert 'value="200000"' in page and 'value="2.50"' in page and 'name="price_tiers-4-above"' in page
    assert (
        "1.25 / 10; more for long prompts"
        in admin.get(reverse("admin:llmcore_languagemodel_changelist")).content.decode()
    )

    # What is emptied is gone; a script that leaves the rows out changes nothing of them.
    untouched = {name: value for name, value in form_of(row).items() if not name.startswith("price_tiers")}
    admin.post(url, untouched)
    row.refresh_from_db()
    assert len(row.price_tiers) == 2
    admin.post(url, form_of(row))
    row.refresh_from_db()
    assert row.price_tiers == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("rows", "changes", "said"),
    [
        ([{"input": "2", "output": "3"}], {}, "Row 1: enter from how many tokens of prompt on"),
        ([{"above": "many"}], {}, "Row 1: enter from how many tokens of prompt on"),
        ([{"above": "9" * 30}], {}, "Row 1: enter from how many tokens of prompt on"),
        ([{"above": "5"}, {"above": "9", "input": "2"}], {}, "Row 2: a cost needs the input and output prices."),
        ([{"above": "5", "input": "-1", "output": "2"}], {}, "Row 1: input is no price in dollars"),
        ([{"above": "5", "input": "NaN", "output": "2"}], {}, "Row 1: input is no price in dollars"),
        ([{"above": "5", "input": "1", "output": "0.0000001"}], {}, "Row 1: output is no price in dollars"),
        ([{"above": "5"}, {"above": "5"}], {}, "Two rows are for the same length of prompt."),
        ([{"above": "5"}], {"input_price": "", "output_price": ""}, "prices of shorter prompts, too."),
    ],
)
def test_a_row_that_is_no_tier_is_named_and_kept(
    admin: Client, rows: list[dict[str, str]], changes: dict[str, str], said: str
) -> None:
    row = LanguageModelFactory()

    page = admin.post(reverse("admin:llmcore_languagemodel_change", args=[row.pk]), form_of(row, *rows, **changes))

    html = page.content.decode()
    assert page.status_code == 200 and said in html
    assert all(f'value="{value}"' in html for tier in rows for value in tier.values())
    row.refresh_from_db()
    assert row.price_tiers == []


@pytest.mark.django_db
def test_a_shipped_price_says_nothing_of_prompts_that_cost_more() -> None:
    google = ProviderFactory(adapter="gemini", base_url="https://generativelanguage.googleapis.com/v1beta")
    row = LanguageModelFactory(provider=google, name="gemini-2.5-pro")
    known = row.shipped_prices
    assert known is not None

    row.prices = known.prices
    row.save()
    row.refresh_from_db()

    assert row.prices == known.prices and known.note == (
        "Prompts of more than 200,000 tokens cost more; how much isn't shipped."
    )
    assert row.prices.cost(usage(200_000)) == Decimal("0.26") and row.prices.cost(usage(200_001)) is None
    assert ModelValue(name="m", prices=row.prices).prices.tier_of(200_001) == PriceTier(above=200_000)
