"""Estimates of tokens learn from what providers report, and say how far they were off."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from llmcore import store
from llmcore.context.learning import LEAST_SAMPLES, MOST_SAMPLES
from llmcore.models import LanguageModel
from llmcore.providers.scripted.scenario import Turn
from playground.services.preview_run import preview_run
from tests.factories import LanguageModelFactory, UserFactory
from tests.playground.driven import Script, script

pytestmark = pytest.mark.django_db(transaction=True)

PROMPT = "Was the order charged twice, and what do we tell the customer? " * 20


def reporting(count: int | None) -> Turn:
    return Turn(text="Yes.", usage={} if count is None else {"input_tokens": count, "output_tokens": 2})


def estimated(scripted: Script) -> int:
    return preview_run(request=scripted.request(prompt=PROMPT), user=UserFactory(is_superuser=True)).window.total


def ratios() -> list[float]:
    return list(LanguageModel.objects.get().token_ratios)


def test_estimates_come_near_to_what_is_reported_from_the_third_run_on() -> None:
    with script(reporting(420)) as scripted:
        before = estimated(scripted)
        for _ in range(LEAST_SAMPLES):
            assert estimated(scripted) == before
            run = scripted.run(prompt=PROMPT)
        assert ratios() == [round(420 / before, 4)] * LEAST_SAMPLES
        assert abs(estimated(scripted) - 420) <= 2
        corrected = scripted.run(prompt=PROMPT)
    assert run.plan and run.plan["estimator"]["ratio"] == 1.0
    assert corrected.plan and corrected.plan["estimator"] == {
        "tokenizer": "",
        "ratio": ratios()[0],
        "samples": LEAST_SAMPLES,
    }
    assert len(set(ratios())) <= 2 and abs(ratios()[-1] - ratios()[0]) < 0.01, "a correction doesn't add to itself"


@pytest.mark.parametrize("count", [None, 5])
def test_a_run_without_believable_counts_teaches_nothing(count: int | None) -> None:
    with script(reporting(count)) as scripted:
        scripted.run(prompt=PROMPT)
        scripted.run(prompt=PROMPT, dry_run=True)
    assert ratios() == []


def test_the_last_runs_are_kept_and_another_way_of_counting_begins_anew() -> None:
    model = LanguageModelFactory(name="gpt-5-mini")
    for _ in range(MOST_SAMPLES + 5):
        store.learn_tokens(provider=model.provider.slug, model=model.name, tokenizer="", ratio=1.5)
    model.refresh_from_db()
    assert model.token_ratios == [1.5] * MOST_SAMPLES
    assert (store.model_value(model).tokenizer, store.model_value(model).token_ratio) == ("o200k_base", 1.0)
    store.learn_tokens(provider=model.provider.slug, model=model.name, tokenizer="o200k_base", ratio=1.1)
    model.refresh_from_db()
    assert (model.token_basis, model.token_ratios) == ("o200k_base", [1.1])


def test_the_page_says_how_far_the_estimate_was_off(client: Client) -> None:
    with script(reporting(420)) as scripted:
        total = estimated(scripted)
        run = scripted.run(prompt=PROMPT)
    client.force_login(UserFactory(is_superuser=True))
    page = client.get(reverse("playground:run", args=[run.pk])).content.decode()
    off = f"{(total - 420) / 4.2:+.1f}".replace("-", "−")
    assert f"Prompts were estimated at {total} before they were sent; 420 were reported ({off}\u00a0%)." in page


def test_the_admin_shows_at_the_model_what_was_learned(client: Client) -> None:
    model = LanguageModelFactory(name="claude-x", token_ratios=[1.1, 1.2, 1.3])
    client.force_login(UserFactory(is_superuser=True))
    page = client.get(reverse("admin:llmcore_languagemodel_change", args=[model.pk])).content.decode()
    assert "Estimated by a rule of thumb, × 1.20 as 3 runs of this model taught." in page
    assert client.get(reverse("admin:llmcore_languagemodel_add")).status_code == 200
