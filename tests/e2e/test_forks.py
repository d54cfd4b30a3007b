"""Forking a run in a browser: by key from the step that is open, with an edited result, to a child that says so."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, Route, expect

from tests.e2e.test_run_page import open_run

RUN = "Where is order DJ-48205?"


def open_tool(page: Page) -> None:
    """Opens the demo run and the first tool run in it."""
    open_run(page, RUN)
    page.locator('.pg-step:has-text("get_order")').first.click()
    expect(page.locator("[data-fork-label]")).to_have_text("Fork from this result")


def test_an_edited_result_goes_to_the_model_and_the_child_says_so(page: Page) -> None:
    open_tool(page)
    parent = page.url.split("#")[0]
    # Who types before the page's script has come is not overlooked.
    held: list[Route] = []
    page.route("**/fork_form*.js", lambda route: held.append(route))
    page.keyboard.press("f")
    expect(page.get_by_role("heading", name="Fork from round 2")).to_be_visible()
    chosen = page.locator("[data-message]:has-text('chosen')")
    expect(chosen).to_have_attribute("open", "")
    expect(chosen.locator("[data-badge]")).to_be_hidden()
    chosen.locator("textarea").fill('{"number": "DJ-48205", "status": "lost"}')
    held[0].continue_()
    expect(chosen.locator("[data-badge]")).to_be_visible()
    expect(page.locator("#preview")).to_contain_text('"status": "lost"')
    page.get_by_text("Advanced").click()
    page.fill("#id_temperature", "0.9")
    page.get_by_role("button", name="Run the fork").click()
    page.wait_for_url(re.compile(r"/runs/\d+/"))
    expect(page.locator(".pg-pill").first).to_have_text("Done", timeout=60_000)
    family = page.locator(".pg-family")
    expect(family).to_contain_text(
        re.compile(r"forked from run \d+ at round 2: 1 message edited, temperature .* → 0.9")
    )
    expect(page.locator("#step-tree")).not_to_contain_text("get_order")
    page.goto(parent)
    expect(page.locator(".pg-family")).to_contain_text("forked at round 2")


def test_a_message_opens_when_it_is_wanted_and_what_was_typed_survives_a_refusal(page: Page) -> None:
    open_tool(page)
    scripts: list[Route] = []
    page.route("**/htmx*.js*", lambda route: scripts.append(route))
    page.locator("a[data-fork]").click(no_wait_after=True)
    user = page.locator('[data-message]:has(.role:text-is("user"))').first
    # Who opens it before the page's scripts have come gets it with them.
    user.locator("summary").click()
    expect(user).to_contain_text("Loading")
    for route in scripts:
        route.continue_()
    page.unroute("**/htmx*.js*")
    expect(user.locator("textarea").first).to_be_visible()
    for text in user.locator("textarea").all():
        text.fill("   ")
    page.fill("#id_title", "Kept")
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_role("alert").first).to_contain_text("Nothing was started.")
    expect(page.locator("#id_title")).to_have_value("Kept")


def test_the_page_fits_a_telephone(open_page: Callable[..., Page]) -> None:
    page = open_page(width=390, color_scheme="dark")
    open_run(page, RUN)
    page.goto(page.locator("a[data-fork]").get_attribute("href") or "")
    page.get_by_text("Answer calls without running the tool").click()
    page.locator(".pg-replace select").first.select_option("typed")
    expect(page.locator(".pg-replace textarea").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0


def test_a_typed_in_result_is_given_and_the_step_says_so(page: Page) -> None:
    open_run(page, RUN)
    page.goto(page.locator("a[data-fork]").get_attribute("href") or "")
    page.get_by_text("Answer calls without running the tool").click()
    page.select_option("#id_mode_get_order", "typed")
    page.fill("#id_typed_get_order", "Order DJ-48205 is in the mail.")
    expect(page.locator("#preview")).to_contain_text("1 tool won't run: get_order.")
    page.get_by_role("button", name="Run the fork").click()
    page.wait_for_url(re.compile(r"/runs/\d+/$|/runs/\d+/#"))
    expect(page.locator(".pg-pill").first).to_have_text("Done", timeout=60_000)
    page.locator('.pg-step:has-text("get_order")').first.click()
    expect(page.locator("[data-origin]")).to_contain_text("Typed-in result. The tool did not run.")
    expect(page.locator("#step-panel")).to_contain_text("is in the mail")
