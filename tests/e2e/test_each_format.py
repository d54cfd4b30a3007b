"""Each wire format from a worker to the screen: what a reader sees of a run doesn't depend on who served it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from llmcore.providers.registry import adapters
from tests.e2e.products import Product

# They report usage in a stream only where it is asked for, which these two don't know.
SILENT = frozenset({"mistral", "groq"})


@pytest.fixture(scope="module")
def runs(product: Product) -> Iterator[dict[str, int]]:
    """A run over each wire format, by the adapter; all of them go on at the same time."""

    started = dict(json.loads(product.run("tests.e2e.runs_of_each_format")))
    yield started
    product.run("tests.e2e.runs_of_each_format", *started.values())


@pytest.mark.parametrize("adapter", sorted(adapters()))
def test_a_run_over_each_format_is_read_in_a_browser(page: Page, runs: dict[str, int], adapter: str) -> None:  # W1
    page.goto(f"/admin/playground/runs/{runs[adapter]}/")
    expect(page.locator("#run-head .pg-pill")).to_have_text(re.compile("Round limit"), timeout=60_000)
    expect(page.locator("#answer")).to_contain_text("I found no order of a.braun@example.com.")
    expect(page.locator(".pg-step", has_text="search_orders")).to_have_count(2)

    page.locator(".pg-step", has_text="Model call").first.click()
    page.get_by_role("tab", name="Thinking").click()
    expect(page.locator("#step-panel")).to_contain_text("I search for the customer's orders again.")
    figures = page.locator("#run-summary .pg-kpis > div")
    cost = figures.filter(has_text="Cost").locator("dd.v")
    if adapter in SILENT:
        expect(cost).to_have_text("")
        expect(figures.filter(has_text="Prompt tokens")).to_contain_text("not reported")
    else:
        expect(cost).to_have_text(re.compile(r"^\$0\.\d+$"))
