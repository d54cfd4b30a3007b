"""A run that fell back to another model: its usage, its page, its list, and what goes on from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from llmcore.models import Configuration, ConfigurationFallback, LanguageModel, UsageRecord
from llmcore.providers.scripted.scenario import Scenario, Turn
from llmcore.tools.base import Effect, Tool
from playground.filters import RunFilters
from playground.models import Run, WireExchangeRecord
from playground.services.continue_run import requeue_interrupted
from playground.services.export_list import export_list
from playground.services.fork_run import read_fork_point, retry_round
from playground.services.preview_run import preview_run
from playground.services.start_run import write_run
from tests.factories import LanguageModelFactory, ProviderFactory, UserFactory
from tests.playground.driven import Script, call, script, site_tool

pytestmark = pytest.mark.django_db(transaction=True)

KEYS = ("sk-first-0123456789", "sk-second-9876543210")
BUSY = Turn(status=429, error=f"Slow down, {KEYS[0]} and {KEYS[1]}.")
LOOK = Turn(text="I look.", tool_calls=(call("look"),))


@pytest.fixture
def tool() -> Iterator[Tool]:
    none = {"type": "object", "properties": {}}
    look = Tool(
        name="look", description="Look.", parameters=none, run=lambda: "seen", group="t", effect=Effect.READ_ONLY
    )
    with site_tool(look):
        yield look


@pytest.fixture
def chain(tool: Tool) -> Iterator[Script]:
    """A configuration whose model is busy from round 2 on, and one of another service behind it."""
    with script(LOOK, BUSY, key=KEYS[0], tool_groups=["t"]) as model:
        LanguageModel.objects.update(input_price=100, output_price=100)
        provider = ProviderFactory(
            slug="other", adapter="anthropic", base_url=model.url, allow_private_hosts=True, key=KEYS[1]
        )
        second = LanguageModelFactory(
            provider=provider, name="second", label="Second", input_price=1, output_price=2, context_window=5_000
        )
        type(provider).objects.update(max_attempts=1)
        ConfigurationFallback.objects.create(configuration=model.configuration, model=second, position=1)
        model.model.scenarios["second"] = Scenario(
            name="second", turns=(Turn(text="never said"), Turn(text="Seen by another."))
        )
        yield model


@pytest.fixture
def page(client: Client) -> Client:
    client.force_login(UserFactory(is_superuser=True))
    return client


def requests(run: Run) -> list[tuple[int, str]]:
    return [(step.round, step.data["model"]) for step in run.steps.all() if step.kind == "request"]


def step_page(client: Client, run: Run, sequence: int, tab: str) -> str:
    url = reverse("playground:run_step", args=[run.pk, sequence])
    return client.get(f"{url}?tab={tab}").content.decode()


def test_each_call_is_metered_with_its_model_and_priced_with_its_price(chain: Script) -> None:
    run = chain.run()

    assert (run.reason, run.answer, run.rounds) == ("completed", "Seen by another.", 2)
    assert requests(run) == [(1, "scripted"), (2, "scripted"), (2, "second")]
    records = UsageRecord.objects.order_by("pk").values_list("model_name", "provider_slug", "error_kind")
    first = chain.configuration.model.provider.slug
    assert list(records) == [("scripted", first, ""), ("scripted", first, "rate_limit"), ("second", "other", "")]
    costs = [record.cost for record in UsageRecord.objects.order_by("pk")]
    last = UsageRecord.objects.first()
    assert last is not None and last.input_tokens and last.output_tokens
    assert costs[2] == Decimal(last.input_tokens + 2 * last.output_tokens) / 1_000_000
    assert run.cost == costs[0] + costs[2]
    assert run.served_by == "other/second"


def test_the_page_says_what_was_asked_and_what_served(chain: Script, page: Client) -> None:
    run = chain.run()
    first = chain.configuration.model.path

    html = page.get(reverse("playground:run", args=[run.pk])).content.decode()

    assert f"Asked {first}, served by other/second from round 2 on." in html
    assert "HTTP 429" in html and "Slow down" in html
    assert "fell back" in html
    assert "→ other/second" in page.get(reverse("playground:runs")).content.decode()
    pieces = export_list(user=UserFactory(is_superuser=True), filters=RunFilters(), now=timezone.now())
    assert "other/second" in "".join(pieces)
    (finding,) = [item for item in run.findings if item["id"] == "fell_back"]
    assert finding["title"] == "Round 2 was answered by `other/second` instead of `scripted`"
    assert [item["id"] for item in run.findings if item["severity"] == "error"] == []


def test_the_panels_show_the_request_that_went_to_the_fallback(chain: Script, page: Client) -> None:
    run = chain.run()
    request = run.steps.filter(kind="request").last()
    assert request is not None

    shown = step_page(page, run, request.sequence, "request")
    assert "anthropic" in shown and "/messages" in shown
    built = page.get(reverse("playground:run_step", args=[run.pk, request.sequence]) + "?tab=request&part=built")
    assert "tool_result" in built.content.decode()
    assert "OTHER_API_KEY" in built.content.decode()
    assert "5,000" in step_page(page, run, request.sequence, "tokens")


def test_two_runs_are_compared_by_what_served_them(chain: Script, page: Client) -> None:
    run = chain.run()
    chain.model.scenarios["scripted"] = Scenario(name="scripted", turns=(LOOK, Turn(text="By itself.")))
    other = chain.run()

    html = page.get(reverse("playground:compare") + f"?a={run.pk}&b={other.pk}").content.decode()

    assert other.served_by == ""
    assert "Served by" in html and "other/second" in html


def test_every_panel_of_every_step_can_be_read(chain: Script, page: Client) -> None:
    run = chain.run(capture_raw=True)
    tabs = ("messages", "response", "thinking", "tools", "request", "raw", "tokens", "cache")

    for step in run.steps.filter(kind="request"):
        shown = {tab: step_page(page, run, step.sequence, tab) for tab in tabs}
        assert all("pg-" in html for html in shown.values())


def test_no_key_of_the_chain_is_kept_anywhere(chain: Script, page: Client) -> None:
    run = chain.run(capture_raw=True)

    kept = json.dumps([step.data for step in run.steps.all()]) + json.dumps(run.findings) + json.dumps(run.plan)
    kept += "".join(
        f"{row.url}{row.request_headers}{bytes(row.response_body)!r}{row.response_headers}{row.error}"
        for row in WireExchangeRecord.objects.filter(run=run)
    )
    kept += page.get(reverse("playground:run_export", args=[run.pk])).content.decode()
    assert "Slow down" in kept
    for key in KEYS:
        assert key not in kept  # R1
    assert WireExchangeRecord.objects.filter(run=run).count() == 3


def test_a_run_that_was_interrupted_goes_on_with_the_model_that_answered_last(chain: Script) -> None:
    run = chain.run()
    run.steps.filter(sequence__gt=9).delete()
    Run.objects.filter(pk=run.pk).update(status="interrupted", reason="interrupted", last_sequence=9)
    assert requeue_interrupted(run)
    chain.model.requests.clear()

    run = chain.drive(Run.objects.get(pk=run.pk))

    assert (run.reason, run.answer) == ("completed", "Seen by another.")
    assert [request.json["model"] for request in chain.model.requests] == ["second"]


def test_a_chain_that_lost_the_model_keeps_the_run_from_going_on(chain: Script) -> None:
    run = chain.run()
    run.steps.filter(sequence__gt=9).delete()
    Run.objects.filter(pk=run.pk).update(status="interrupted", reason="interrupted", last_sequence=9)
    assert requeue_interrupted(run)
    ConfigurationFallback.objects.all().delete()

    run = chain.drive(Run.objects.get(pk=run.pk))

    assert run.status == "interrupted"
    assert "other/second" in run.detail and "fallback models" in run.detail


def test_a_fork_asks_the_first_model_again_and_sends_it_nothing_of_the_other(chain: Script) -> None:
    run = chain.run()
    chain.model.scenarios["scripted"] = Scenario(name="scripted", turns=(LOOK, Turn(text="Back again.")))

    fork = chain.drive(retry_round(run=run, by=UserFactory(is_superuser=True)))

    assert (fork.reason, fork.answer, fork.served_by) == ("completed", "Back again.", "")
    assert requests(fork) == [(2, "scripted")]
    assert read_fork_point(run=run, at=run.last_sequence).fork.model == "second"


def test_a_dry_run_and_the_preview_are_about_the_first_model(chain: Script) -> None:
    user = UserFactory(is_superuser=True)
    run = chain.run(dry_run=True)

    assert (run.reason, run.served_by) == ("dry_run", "")
    assert [step.data["model"] for step in run.steps.filter(kind="assembled")] == ["scripted"]
    preview = preview_run(request=chain.request(), user=user)
    assert [notice.title for notice in preview.notices if notice.id == "fallback_models"] == [
        f"Fallback: Second ({ConfigurationFallback.objects.get().model.provider})"
    ]


def test_versions_keep_the_chain_and_a_run_as_then_follows_it(chain: Script) -> None:
    run = chain.run()
    ConfigurationFallback.objects.all().delete()
    versions = tuple(tuple(ref) for ref in run.plan["versions"])  # type: ignore[index]

    again: Any = chain.run(versions=versions)

    assert again.served_by == "other/second"
    assert Configuration.objects.get().version_fields()["fallbacks"] == []


def test_a_run_says_in_its_plan_whom_it_may_ask(chain: Script) -> None:
    run = write_run(request=chain.request(), by=None)

    chain.drive(run)

    assert run.plan is not None
    (fallback,) = run.plan["configuration"]["fallbacks"]
    assert (fallback["provider"]["slug"], fallback["model"]["name"]) == ("other", "second")
    assert fallback["model"]["prices"]["input"] == "1.000000"
