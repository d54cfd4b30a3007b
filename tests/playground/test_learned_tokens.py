"""Estimates of tokens learn from what providers report, and say how far they were off."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse

from llmcore import site_usage, store
from llmcore.context.learning import LEAST_SAMPLES, MOST_SAMPLES
from llmcore.models import LanguageModel
from llmcore.providers.scripted.scenario import Turn
from llmcore.runs.outcome import EndReason
from playground.models import Run
from playground.reading.step_rows import load_rows
from playground.reading.steps import read_lines
from playground.rows import load_steps
from playground.run_findings import view_of
from playground.services.preview_run import preview_run
from tests.factories import LanguageModelFactory, UserFactory
from tests.playground.driven import Script, script
from tests.playground.recorded import finished_run
from tests.playground.shown import text_of

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
        site_usage.learn_tokens(provider=model.provider.slug, model=model.name, tokenizer="", ratio=1.5)
    model.refresh_from_db()
    assert model.token_ratios == [1.5] * MOST_SAMPLES
    assert (store.model_value(model).tokenizer, store.model_value(model).token_ratio) == ("o200k_base", 1.0)
    site_usage.learn_tokens(provider=model.provider.slug, model=model.name, tokenizer="o200k_base", ratio=1.1)
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


def test_pages_and_findings_of_a_run_count_as_the_run_did(client: Client) -> None:
    client.force_login(UserFactory(is_superuser=True))
    plain, doubled = finished_run(), finished_run()
    Run.objects.filter(pk=doubled.pk).update(plan={**doubled.plan, "estimator": {"ratio": 2.0}})
    doubled.refresh_from_db()

    page = text_of(client.get(reverse("playground:compare"), {"a": plain.pk, "b": doubled.pk}).content.decode())
    counts = [
        (int(a), int(b))
        for pattern in (r"Answer ≈ (\d+) → (\d+) tokens", r"identical Show (\d+) → (\d+) tok")
        for a, b in re.findall(pattern, page)
    ]
    assert counts and all(b == 2 * a for a, b in counts), counts
    sizes = [
        [line.tokens for line in read_lines(run, load_rows(run.steps.all())) if line.is_tool]
        for run in (plain, doubled)
    ]
    assert sizes[1] == [2 * count for count in sizes[0]]
    views = (view_of(run, load_steps(run.pk), {}, EndReason.COMPLETED) for run in (plain, doubled))
    assert [view.estimator.ratio for view in views] == [1.0, 2.0]
