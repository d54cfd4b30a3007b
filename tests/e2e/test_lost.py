"""What doesn't arrive in a browser, from live updates to a fold: it is said in its place and can be tried again."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.products import Product

LIVE = re.compile(r"/(events|updates)/")


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    """A logged-in page; each failed request is an error to the console."""
    return open_page(expect_errors=True)


def open_run(page: Page, pk: int, anchor: str = "") -> None:
    page.goto(f"/admin/playground/runs/{pk}/{anchor}")
    expect(page.locator("#step-detail h2")).to_be_visible()


def log_in_elsewhere(page: Page, product: Product, note: str = "#run-lost") -> None:
    """Follows the link of `note` to another tab, logs in there, and comes back."""
    with page.expect_popup() as opened:
        page.locator(note).get_by_role("link", name="Log in again").click()
    other = opened.value
    other.fill("#id_username", product.username)
    other.fill("#id_password", product.password)
    other.click("[type=submit]")
    other.wait_for_selector("#user-tools")
    other.close()
    page.bring_to_front()
    page.evaluate("window.dispatchEvent(new Event('focus'))")


def test_lost_updates_are_counted_and_tried_again(page: Page, recorded: dict[str, int]) -> None:
    page.route(LIVE, lambda route: route.abort())
    open_run(page, recorded["running"])
    note = page.locator("#run-lost")

    expect(note).to_contain_text(re.compile(r"Live updates stopped \d+ s ago. The run goes on in the background."))
    expect(note).to_contain_text(re.compile(r"Trying again in \d+ s\."))
    expect(page.locator("#run-status")).to_contain_text("Live updates stopped. The server can't be reached.")
    expect(note).to_contain_text(re.compile(r"stopped ([2-9]|\d\d+) s ago"))
    assert page.evaluate("document.activeElement === document.body")
    page.unroute(LIVE)
    note.get_by_role("button", name="Try now").press("Enter")

    expect(note).to_be_hidden()


@pytest.mark.parametrize(("status", "why"), [(403, "You may no longer see this run."), (404, "The run is gone")])
def test_who_may_not_see_a_run_any_more_is_told_and_not_asked_for_again(
    page: Page, recorded: dict[str, int], status: int, why: str
) -> None:
    asked: list[str] = []

    def refuse(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(status=status, body="no")

    page.route(LIVE, refuse)
    open_run(page, recorded["running"])

    note = page.locator("#run-lost")
    expect(note).to_contain_text(why)
    expect(note).to_contain_text("What is on the page stays until you leave it.")
    before = len(asked)
    # Long enough for what would be tried again after a second.
    expect(note).to_contain_text(re.compile(r"stopped ([2-9]|\d\d+) s ago"))
    assert len(asked) == before


def test_who_is_logged_out_logs_in_in_another_tab_and_goes_on(
    page: Page, recorded: dict[str, int], product: Product
) -> None:
    open_run(page, recorded["running"])
    page.locator("[name=note]").fill("Half a thou")
    page.context.clear_cookies(name="sessionid")
    page.evaluate("window.dispatchEvent(new Event('online'))")
    note = page.locator("#run-lost")
    expect(note).to_contain_text("You are logged out.")
    expect(note).not_to_contain_text("Trying again")
    expect(page.locator("#own_note_state")).to_contain_text("Not saved. You are logged out.")
    page.locator("#step-1").click()
    detail = page.locator("#step-detail")
    expect(detail.get_by_role("alert")).to_contain_text("You are logged out.")
    expect(detail.get_by_role("link", name="Log in again")).to_have_attribute("href", re.compile("/admin/login/"))

    log_in_elsewhere(page, product)

    expect(note).to_be_hidden()
    expect(detail.locator("h2")).to_contain_text("Round 1")
    expect(page.locator("[name=note]")).to_have_value("Half a thou")
    # What changes something is accepted from the new session too.
    page.locator("#own_note_state").get_by_role("button", name="Try again").click()
    expect(page.locator("#own_note_state")).to_contain_text("Saved")


def test_a_form_that_is_sent_after_the_login_has_ended_is_kept(page: Page, product: Product) -> None:
    page.clock.install()
    page.goto("/admin/playground/new/")
    prompt = page.locator("[name=prompt]")
    with page.expect_response("**/preview/"):
        prompt.fill("Half a thought")
    expect(page.locator(".htmx-request")).to_have_count(0)
    page.context.clear_cookies(name="sessionid")
    page.clock.fast_forward(60_000)
    page.get_by_role("button", name="Dry run").click()
    note = page.locator("[data-not-sent]")
    expect(note).to_contain_text("Nothing was started. You are logged out. Nothing on this page is lost.")
    expect(prompt).to_have_value("Half a thought")

    log_in_elsewhere(page, product, "[data-not-sent]")

    expect(note).to_be_hidden()
    page.get_by_role("button", name="Dry run").click()
    page.wait_for_url("**/playground/runs/*/")
    expect(page.locator("#run-head")).to_contain_text("Half a thought")


def test_what_is_opened_and_does_not_come_says_so_in_its_place(page: Page, recorded: dict[str, int]) -> None:
    steps = "**/steps/**"
    held: list[Route] = []
    page.route(steps, lambda route: held.append(route))
    page.goto(f"/admin/playground/runs/{recorded['completed']}/")
    detail = page.locator("#step-detail")
    # A step that is on its way has its shape, and one that doesn't come says so.
    expect(page.locator("[data-loading] .pg-skel").first).to_be_visible()
    expect(detail).to_have_attribute("aria-busy", "true")
    held[0].abort()
    expect(detail.get_by_role("alert")).to_contain_text("This step could not be loaded")
    expect(detail).to_contain_text("The server can't be reached.")
    page.unroute(steps)
    detail.get_by_role("button", name="Try again").press("Enter")
    expect(detail.locator("h2")).to_contain_text("Round 1")
    expect(detail.get_by_role("tab", selected=True)).to_be_focused()

    # A tab: its step stays where it is.
    page.route(steps, lambda route: route.fulfill(status=500, body="broken"))
    detail.get_by_role("tab", name="Request", exact=True).click()
    expect(detail.locator("#step-panel")).to_contain_text("This tab could not be loaded")
    expect(detail.locator("#step-panel")).to_contain_text("The server answered 500.")
    expect(detail.locator("h2")).to_contain_text("Round 1")
    page.unroute(steps)
    detail.get_by_role("button", name="Try again").press("Enter")
    expect(detail.locator("#step-panel")).to_contain_text("SHA-256")

    # A fold, with the keyboard only.
    page.locator(".pg-step").nth(3).click()
    detail.get_by_role("tab", name="Messages").click()
    fold = detail.locator(".pg-thread > .pg-fold").first
    page.route(steps, lambda route: route.abort())
    fold.locator("summary").press("Enter")
    expect(fold.get_by_role("alert")).to_contain_text("Not loaded. The server can't be reached.")
    expect(page.locator("#pg-failed")).to_be_hidden()
    page.unroute(steps)
    page.keyboard.press("Tab")
    expect(fold.get_by_role("button", name="Try again")).to_be_focused()
    page.keyboard.press("Enter")
    expect(fold.get_by_role("alert")).to_have_count(0)
    expect(fold.locator("li")).not_to_have_count(0)
    expect(fold.locator("summary")).to_be_focused()

    # A button that fetches more.
    page.route(steps, lambda route: route.fulfill(status=500, body="broken"))
    message = fold.get_by_role("button", name="Open").first
    message.press("Enter")
    expect(fold.locator("li").first.get_by_role("alert")).to_contain_text("The server answered 500.")
    page.unroute(steps)
    fold.get_by_role("button", name="Try again").press("Enter")
    expect(fold.locator("article")).to_contain_text("You help.")


def test_a_part_of_a_long_list_that_does_not_come_is_asked_for_again(page: Page, recorded: dict[str, int]) -> None:
    open_run(page, recorded["long"])
    page.route("**/steps/?**", lambda route: route.abort())
    page.locator("#step-tree [tabindex='0']").press("End")
    failed = page.locator("#steps-failed")
    expect(failed).to_contain_text("The steps could not be loaded. The server can't be reached.")
    page.unroute("**/steps/?**")
    failed.get_by_role("button", name="Try again").press("Enter")

    expect(failed).to_be_hidden()
    expect(page.locator("#step-answer")).to_be_attached()
