"""The main job in a browser, from the form to the finished run, and every end that the demo shows."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.test_run_page import address_of, open_run

NEW_RUN = "/admin/playground/new/"
# What the demo's runs end with: the pill's word, and what the page says about it.
ENDS = {
    "Double charge on order DJ-48213": ("Done", None),
    "Double charge, dry run": ("Dry run", "Nothing was sent"),
    "Orders of a.braun@example.com": ("Round limit", "rounds"),
    "Refund note for DJ-48213": ("Cut off", "limit"),
    "Where is my order? (refused key)": ("Provider failed", "API key"),
}


def run_from_form(page: Page, *, raw: bool) -> str:
    """Fills the form as an admin does, runs it, and waits on the live page for the end; the run's address."""
    page.goto(NEW_RUN)
    page.select_option("#id_configuration", "rush-hour")
    expect(page.locator("[name=tools_of]")).to_have_value("rush-hour")
    page.fill("#id_prompt", "Dario Quast asks where his order DJ-48205 is.")
    page.locator("[name=capture_raw]").set_checked(raw)
    expect(page.locator("[data-preview]")).not_to_have_attribute("aria-busy", "true")
    page.locator("[data-run]").click()
    page.wait_for_url(re.compile(r"/runs/\d+/"))
    expect(page.locator(".pg-pill--done")).to_be_visible(timeout=60_000)
    address = page.url.split("#")[0]
    # What follows reads the finished run afresh, as somebody does who was sent its address.
    page.goto("about:blank")
    return address


def test_raw_capture_shows_the_exchange_with_each_attempt_and_no_secret(page: Page) -> None:
    address = run_from_form(page, raw=True)
    page.goto(f"{address}#step-1/raw")

    panel = page.locator("#step-detail")
    expect(panel).to_have_attribute("data-tab", "raw")
    expect(panel).to_contain_text("POST")
    # The demo's server refuses the first attempt with 429.
    expect(panel).to_contain_text("429")
    expect(panel).to_contain_text("Attempt 2")


def test_without_raw_capture_the_page_says_that_nothing_was_kept(page: Page) -> None:
    address = run_from_form(page, raw=False)
    page.goto(f"{address}#step-1/raw")

    expect(page.locator("#step-detail")).to_contain_text("Raw capture was off")


@pytest.mark.parametrize("title", ENDS)
def test_each_end_has_its_pill_and_its_words(page: Page, title: str) -> None:
    pill, words = ENDS[title]
    open_run(page, title)

    expect(page.locator(".pg-title .pg-pill").first).to_have_text(re.compile(pill))
    if words:
        expect(page.locator(".pg-note").filter(has_text=words).first).to_be_visible()


def test_the_pages_come_with_a_strict_content_policy(page: Page) -> None:
    for address in (NEW_RUN, "/admin/playground/", address_of(page, "Double charge on order DJ-48213")):
        response = page.goto(address)
        assert response is not None
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy
        assert "unsafe-inline" not in policy and "unsafe-eval" not in policy
