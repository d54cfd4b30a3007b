"""The list of runs in a browser: its filters, its pages, and rows that go on while their runs do."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

RUNS = "/admin/playground/"


def rows(page: Page) -> list[str]:
    return page.locator("#runs_table tbody tr").evaluate_all("rows => rows.map(row => row.id)")


def start(page: Page, configuration: str, prompt: str) -> str:
    """Sends the form of a new run beside the page, and returns the run's id."""
    address = "/admin/playground/new/"
    page.goto(address)
    token = page.locator("#new_run [name=csrfmiddlewaretoken]").input_value()
    form = {"configuration": configuration, "prompt": prompt, "override": "none", "csrfmiddlewaretoken": token}
    response = page.request.post(address, form=form, max_redirects=0)
    return re.findall(r"/runs/(\d+)/", response.headers["location"])[0]


def cancel(page: Page, pk: str) -> None:
    """Ends a run beside the page: nobody has to wait for its end, and its worker is free."""
    token = page.locator("[name=csrfmiddlewaretoken]").first.input_value()
    response = page.request.post(f"{RUNS}runs/{pk}/cancel/", form={"csrfmiddlewaretoken": token}, max_redirects=0)
    assert response.status == 302


def test_demo_runs_show_how_runs_can_end(page: Page) -> None:
    # By status, since the first page is full of what other tests have started.
    pills: set[str] = set()
    for status in ("completed", "dry_run", "incomplete", "failed"):
        page.goto(f"{RUNS}?status={status}")
        pills.update(page.locator("#runs_table .pg-pill").all_inner_texts())
    assert {"Done", "Dry run", "Round limit", "Cut off", "Provider failed"} <= pills


def test_a_choice_that_overtakes_another_one_is_no_error(page: Page) -> None:
    page.goto(RUNS)
    held: list[Route] = []
    page.route("**/playground/?configuration=support-triage", lambda route: held.append(route))
    with page.expect_request("**/playground/?configuration=support-triage"):
        page.select_option("[name=configuration]", "support-triage")
    page.select_option("[name=configuration]", "shop-reports")

    # The page of this test complains about every error on the console.
    page.wait_for_url("**/playground/?configuration=shop-reports")
    assert len(held) == 1
    expect(page.locator("#pg-failed")).to_be_hidden()


@pytest.mark.parametrize(
    ("status", "why"),
    [(403, "You may not do this any more."), (500, "The server answered 500."), (0, "can't be reached")],
)
def test_what_does_not_arrive_is_said(open_page: Callable[..., Page], status: int, why: str) -> None:
    page = open_page(expect_errors=True)
    page.goto(RUNS)
    address = "**/playground/?configuration=support-triage"
    page.route(address, lambda route: route.fulfill(status=status) if status else route.abort("internetdisconnected"))

    page.select_option("[name=configuration]", "support-triage")

    note = page.locator("#pg-failed")
    expect(note).to_contain_text(why)
    expect(note).to_have_role("alert")
    assert rows(page)
    page.unroute(address)
    page.select_option("[name=configuration]", "shop-reports")
    page.wait_for_url("**/playground/?configuration=shop-reports")
    expect(note).to_be_hidden()


def test_filters_apply_when_they_are_chosen_and_stay_in_the_address(page: Page) -> None:
    page.goto(RUNS)
    page.select_option("[name=configuration]", "support-triage")
    page.wait_for_url("**/playground/?configuration=support-triage")
    page.locator("#status_chips").get_by_role("link", name=re.compile("^Dry run")).click()
    page.wait_for_url("**/playground/?status=dry_run&configuration=support-triage")
    pills = page.locator("#runs_table .pg-pill")
    expect(pills.filter(has_not_text="Dry run")).to_have_count(0)
    expect(pills).not_to_have_count(0)
    page.go_back()
    expect(page.locator("#status_chips [aria-current=true]")).to_contain_text("All")
    expect(page.locator("[name=configuration]")).to_have_value("support-triage")
    page.select_option("[name=configuration]", "")
    page.wait_for_url("**/playground/")


def test_filters_without_a_match_can_be_cleared(page: Page) -> None:
    page.goto(f"{RUNS}?status=interrupted&configuration=shop-reports")
    expect(page.get_by_text("No run matches these filters")).to_be_visible()
    page.get_by_role("link", name="Clear filters").click()
    expect(page.locator("#runs_table tbody tr")).not_to_have_count(0)


def test_row_of_a_running_run_goes_on_until_the_run_is_over(page: Page) -> None:
    pk = start(page, "slow-writer", "Write something long, slowly.")
    page.goto(RUNS)
    row = page.locator(f"#run_{pk}")
    expect(row.locator(".pg-pill--running")).to_be_visible()
    before = row.locator("td.bar .num").last.inner_text()
    expect(row.locator("td.bar .num").last).not_to_have_text(before)
    expect(page.locator("#status_chips")).to_contain_text("Running")
    page.locator(f"#run_{pk}_link").focus()
    with page.expect_response("**/playground/live/**"):
        pass
    expect(page.locator(f"#run_{pk}_link")).to_be_focused()
    cancel(page, pk)
    expect(row.locator(".pg-pill--cancelled")).to_be_visible(timeout=30_000)
    expect(page.locator("#runs_live")).to_have_count(0)
    expect(page.locator("#status_chips")).not_to_contain_text("Running")


def test_hidden_page_asks_for_nothing(page: Page) -> None:
    pk = start(page, "slow-writer", "Write something long, slowly.")
    page.goto(RUNS)
    expect(page.locator("#runs_live")).to_have_count(1)
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    # Two of the times at which it would have asked.
    page.evaluate(
        """() => new Promise(done => {
            let times = 0;
            document.addEventListener('htmx:beforeRequest', () => { times += 1; if (times === 2) done() });
        })"""
    )
    assert asked == []
    page.evaluate("Object.defineProperty(document, 'hidden', {value: false, configurable: true})")
    with page.expect_response("**/playground/live/**"):
        pass
    cancel(page, pk)


@pytest.mark.parametrize(("width", "color_scheme"), [(390, "light"), (390, "dark"), (768, "light"), (1440, "dark")])
def test_list_fits_every_width(open_page: Callable[..., Page], width: int, color_scheme: str) -> None:
    page = open_page(width=width, color_scheme=color_scheme)
    page.goto(RUNS)
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    as_cards = page.locator("#runs_table tbody tr").first.evaluate("row => getComputedStyle(row).display") == "grid"
    # With the sidebar open, a tablet's column is as narrow as a phone.
    assert as_cards == (width < 1440)
