"""Every wire format through the whole product: a run with thinking, tools and costs, and one that fails."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

import pytest
from django.test import Client
from django.urls import reverse

from llmcore.models import LanguageModel, Provider, UsageRecord
from llmcore.providers.registry import adapters
from llmcore.providers.scripted.scenario import Turn
from llmcore.tools.base import Effect, Tool
from playground.models import Run, RunContent, RunStep, WireExchangeRecord
from tests.factories import UserFactory
from tests.playground.driven import Script, call, script, site_tool

pytestmark = pytest.mark.django_db(transaction=True)

KEY = "sk-providers-0123456789abcdef"
TURNS = (
    Turn(thinking="Two cities. I look.", text="One moment.", tool_calls=(call("weather", city="Oslo"),)),
    Turn(thinking="It is cold.", text="It is 3 °C in Oslo."),
)
REFUSED = Turn(
    status=401,
    error={"message": f"Incorrect API key provided: {KEY}.", "type": "authentication_error", "code": KEY, "param": KEY},
    headers={"x-echo": KEY, "www-authenticate": f'Bearer realm="{KEY}"', "set-cookie": f"session={KEY}"},
)
# They report usage in a stream only where it is asked for, which these two don't know.
SILENT = frozenset({"mistral", "groq"})


@pytest.fixture
def page(client: Client) -> Client:
    client.force_login(UserFactory(is_superuser=True))
    return client


@pytest.fixture
def tool() -> Iterator[Tool]:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    weather = Tool(
        name="weather",
        description="The weather.",
        parameters=schema,
        run=lambda city: f"{city}: 3 °C",
        group="t",
        effect=Effect.READ_ONLY,
    )
    with site_tool(weather):
        yield weather


def speaking(model: Script, adapter: str) -> Script:
    """The same model, spoken to over another wire format."""
    Provider.objects.update(adapter=adapter, max_attempts=1)
    LanguageModel.objects.update(supports_thinking=True, input_price=3, output_price=15)
    return replace(model)


def step_of(page: Client, run: Run, kind: str, tab: str, *, last: bool = False) -> str:
    steps = run.steps.filter(kind=kind)
    step = steps.last() if last else steps.first()
    assert step is not None
    return page.get(reverse("playground:run_step", args=[run.pk, step.sequence]) + f"?tab={tab}").content.decode()


@pytest.mark.parametrize("adapter", sorted(adapters()))
def test_a_run_is_shown_with_answer_thinking_tools_tokens_and_cost(adapter: str, page: Client, tool: Tool) -> None:
    with script(*TURNS, key=KEY, tool_groups=["t"], thinking="low") as served:
        run = speaking(served, adapter).run()

    assert (run.reason, run.answer, run.rounds, run.tool_calls) == ("completed", "It is 3 °C in Oslo.", 2, 1)
    html = page.get(reverse("playground:run", args=[run.pk])).content.decode()
    assert "It is 3 °C in Oslo." in html and "weather" in html and KEY not in html
    assert "Two cities. I look." in step_of(page, run, "response", "thinking")
    assert "Oslo: 3 °C" in step_of(page, run, "tool_call", "result")
    assert adapter in step_of(page, run, "request", "request", last=True)
    assert UsageRecord.objects.filter(run_id=run.pk, model_name="scripted").count() == 2
    if adapter in SILENT:
        assert (run.input_tokens, run.cost) == (None, None)
        assert "usage_missing" in {finding["id"] for finding in run.findings}
    else:
        assert run.input_tokens and run.output_tokens
        # The price of what was cached is that of input, where it has none of its own.
        assert run.cost == Decimal(3 * run.input_tokens + 15 * run.output_tokens) / 1_000_000
        assert f"{run.input_tokens:,}" in html


@pytest.mark.parametrize("adapter", sorted(adapters()))
def test_a_key_that_the_server_repeats_is_nowhere(adapter: str, page: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with script(REFUSED, key=KEY) as served:
        run = speaking(served, adapter).run(capture_raw=True)

    assert run.reason == "provider_failed"
    assert run.error is not None and run.error["kind"] == "authentication"
    exchange = WireExchangeRecord.objects.get(run=run)
    kept = [
        json.dumps([run.error, run.findings, run.plan, run.request]),
        run.detail,
        repr(list(RunStep.objects.filter(run=run).values_list("data", flat=True))),
        repr(list(RunContent.objects.filter(run=run).values_list("value", flat=True))),
        f"{exchange.url} {exchange.request_headers} {exchange.response_headers} {exchange.error}",
        bytes(exchange.response_body).decode(),
        bytes(exchange.request_body).decode(),
        repr(list(UsageRecord.objects.values())),
        caplog.text,
        page.get(reverse("playground:run", args=[run.pk])).content.decode(),
        page.get(reverse("playground:run_export", args=[run.pk])).content.decode(),
        *(step_of(page, run, "request", tab) for tab in ("request", "response", "raw")),
    ]
    assert "Incorrect API key provided" in kept[1]
    assert [index for index, text in enumerate(kept) if KEY in text] == []  # R1
