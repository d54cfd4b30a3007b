"""The history of runs in a browser: searching, filtering, selecting, and writing down what a run taught."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.test_runs import RUNS, cancel, rows, start

CHARGE = "Double charge on order DJ-48213"


def open_run(page: Page, title: str = CHARGE) -> None:
    page.goto(RUNS)
    page.locator("#runs_table .ttl", has_text=re.compile(f"^{re.escape(title)}$")).first.click()
    page.wait_for_selector("#step-detail h2")


def test_search_is_a_key_away_and_stands_in_the_address(page: Page) -> None:
    page.goto(RUNS)
    page.keyboard.press("/")
    expect(page.locator("[data-search]")).to_be_focused()
    page.keyboard.type('"amelia braun" refu')
    page.keyboard.press("Enter")
    page.wait_for_url("**/playground/?q=%22amelia%20braun%22%20refu")
    expect(page.locator("#runs_table mark").first).to_have_text("Amelia Braun")
    found = rows(page)
    assert found
    expect(page.locator("[data-search]")).to_be_focused()
    page.reload()
    assert rows(page) == found
    page.get_by_role("link", name=re.compile("Remove the filter Search")).click()
    page.wait_for_url("**/playground/")
    expect(page.locator("#runs_table tbody tr").nth(len(found))).to_be_attached()


def test_filters_apply_in_place_and_can_be_set_by_keyboard(page: Page) -> None:
    page.goto(RUNS)
    more = page.get_by_role("button", name="More filters")
    more.focus()
    page.keyboard.press("Enter")
    expect(more).to_have_attribute("aria-expanded", "true")
    outcome = page.get_by_label("Outcome")
    outcome.focus()
    page.keyboard.type("Round")
    page.wait_for_url("**/playground/?outcome=max_rounds")
    expect(page.locator("#runs_table .pg-pill")).to_have_text(["Round limit"])
    # The choice is where it was, and so is whoever made it.
    expect(outcome).to_be_focused()
    expect(page.locator("#runs_meta")).to_contain_text("1 run")
    page.locator("#id_model").select_option(index=1)
    page.wait_for_url("**/playground/?outcome=max_rounds&model=**")
    page.go_back()
    page.wait_for_url("**/playground/?outcome=max_rounds")
    expect(page.locator("#runs_table .pg-pill")).to_have_text(["Round limit"])
    expect(page.locator("#id_model")).to_have_value("")


def test_period_and_dates_take_each_others_place(page: Page) -> None:
    page.goto(RUNS)
    page.get_by_label("When").select_option("today")
    page.wait_for_url("**/playground/?when=today")
    page.get_by_role("button", name="More filters").click()
    page.get_by_label("From").first.fill("2020-01-01")
    page.wait_for_url("**/playground/?since=2020-01-01")
    expect(page.get_by_label("When")).to_have_value("")
    page.get_by_label("When").select_option("7d")
    page.wait_for_url("**/playground/?when=7d")


def test_selected_runs_are_tagged_and_exported(page: Page, tmp_path: Path) -> None:
    page.goto(RUNS)
    bar = page.locator("#selection")
    expect(bar).to_be_hidden()
    boxes = page.locator("td.ck input")
    boxes.nth(0).focus()
    page.keyboard.press("Space")
    boxes.nth(1).check()
    expect(bar).to_contain_text("2 runs selected")
    bar.get_by_label("Tag").fill("Weekly")
    page.keyboard.press("Enter")
    expect(page.locator("#tagged")).to_contain_text("“weekly” added to 2 runs.")
    expect(page.locator("#runs_table .pg-tag", has_text="weekly")).to_have_count(2)
    with page.expect_download() as download:
        bar.get_by_role("link", name="Export CSV").click()
    path = tmp_path / "runs.csv"
    download.value.save_as(path)
    exported = list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines()))
    assert [f"run_{row['run']}" for row in exported] == rows(page)[:2]
    bar.get_by_role("button", name="Remove").click()
    expect(page.locator("#runs_table .pg-tag", has_text="weekly")).to_have_count(0)
    bar.get_by_role("button", name="Clear").click()
    expect(bar).to_be_hidden()
    page.get_by_label("Select all runs of this page").check()
    expect(bar).to_contain_text(f"{len(rows(page))} runs selected")


def test_two_selected_runs_are_compared_and_change_places(page: Page) -> None:
    page.goto(RUNS)
    newer, older = (int(row.removeprefix("run_")) for row in rows(page)[:2])
    bar, boxes = page.locator("#selection"), page.locator("td.ck input")
    boxes.nth(0).check()
    expect(bar.get_by_role("link", name="Compare")).to_be_hidden()
    boxes.nth(1).check()

    bar.get_by_role("link", name="Compare").click()
    page.wait_for_url(f"**/compare/?a={older}&b={newer}")
    expect(page.locator(".pg-ab__card")).to_contain_text([f"run {older}", f"run {newer}"])
    page.get_by_role("link", name="Swap A and B").focus()
    page.keyboard.press("Enter")

    page.wait_for_url(f"**/compare/?a={newer}&b={older}")


def test_selection_outlives_news_of_its_rows(page: Page) -> None:
    pk = start(page, "slow-writer", "Write something long, slowly.")
    page.goto(RUNS)
    page.locator(f"#run_{pk} input").check()
    with page.expect_response("**/playground/live/**"):
        pass
    expect(page.locator(f"#run_{pk} input")).to_be_checked()
    expect(page.locator("#selection")).to_contain_text("1 run selected")
    cancel(page, pk)


def test_title_and_tags_are_edited_in_place(open_page: Callable[..., Page]) -> None:
    # A refused form is an error to the console.
    page = open_page(expect_errors=True)
    open_run(page)
    page.get_by_role("button", name="Edit title and tags").click()
    title, tags = page.get_by_label("Title", exact=True), page.get_by_label(re.compile("^Tags"))
    expect(title).to_be_focused()
    title.fill("")
    tags.fill("refunds, Baseline")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Enter a title.")
    expect(tags).to_have_value("refunds, Baseline")
    title.fill(f"{CHARGE} <b>")
    page.keyboard.press("Enter")
    expect(page.locator("#run-head .pg-title__t")).to_contain_text(f"{CHARGE} <b>")
    expect(page.locator("#run-head a.pg-tag")).to_have_text(["baseline", "refunds"])
    expect(page.get_by_role("button", name="Edit title and tags")).to_be_focused()
    page.keyboard.press("Enter")
    title.fill("Never")
    page.keyboard.press("Escape")
    expect(page.locator("[data-about]")).to_have_count(0)
    expect(page.get_by_role("button", name="Edit title and tags")).to_be_focused()
    page.locator("#run-head a.pg-tag", has_text="baseline").click()
    page.wait_for_url("**/playground/?tag=baseline")
    # As it was, for the other tests.
    page.locator("#runs_table .ttl").first.click()
    page.get_by_role("button", name="Edit title and tags").click()
    title.fill(CHARGE)
    tags.fill("")
    page.keyboard.press("Enter")
    expect(page.locator("#run-head .pg-title__t")).not_to_contain_text("<b>")


def test_note_saves_itself_and_is_kept_where_it_can_not(open_page: Callable[..., Page]) -> None:
    page = open_page(expect_errors=True)
    open_run(page)
    note, state = page.locator("[name=note]"), page.locator("#own_note_state")
    note.fill("Keep the second payment.")
    expect(state).to_contain_text("Saved")
    page.route("**/note/", lambda route: route.abort())
    note.press_sequentially(" And tell them.")
    expect(state).to_contain_text("Not saved.")
    expect(note).to_have_value("Keep the second payment. And tell them.")
    page.unroute("**/note/")
    state.get_by_role("button", name="Try again").click()
    expect(state).to_contain_text("Saved")
    page.reload()
    expect(note).to_have_value("Keep the second payment. And tell them.")
    page.goto(f"{RUNS}?q=tell+them")
    expect(page.locator("#runs_table .pg-noted")).to_contain_text("And tell them.")


def test_what_is_being_written_outlives_the_end_of_the_run(page: Page) -> None:
    pk = start(page, "slow-writer", "Write something long, slowly.")
    page.goto(f"{RUNS}runs/{pk}/")
    page.get_by_role("button", name="Edit title and tags").click()
    title = page.get_by_label("Title", exact=True)
    title.fill("Half a ti")
    page.locator("[name=note]").fill("While it runs")
    title.focus()
    expect(page.locator(".pg-partial")).not_to_be_empty(timeout=30_000)
    cancel(page, pk)
    expect(page.locator("#run-head .pg-pill--cancelled")).to_be_visible(timeout=30_000)
    expect(page.locator("#answer")).to_be_visible()
    expect(title).to_have_value("Half a ti")
    expect(title).to_be_focused()
    expect(page.locator("[name=note]")).to_have_value("While it runs")
    page.keyboard.type("tle")
    page.keyboard.press("Enter")
    expect(page.locator("#run-head .pg-title__t")).to_contain_text("Half a title")
    expect(page.locator("#run-head .pg-pill--cancelled")).to_be_visible()


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
def test_filters_fold_on_a_phone(open_page: Callable[..., Page], color_scheme: str) -> None:
    page = open_page(width=390, color_scheme=color_scheme)
    page.goto(f"{RUNS}?q=order&when=30d")
    expect(page.locator("#id_configuration")).to_be_hidden()
    toggle = page.get_by_role("button", name="Filters")
    toggle.click()
    for name in ("configuration", "when", "outcome", "since", "cost_to", "failed"):
        expect(page.locator(f"#id_{name}")).to_be_visible()
    page.locator("td.ck input").first.check()
    expect(page.locator("#selection")).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    toggle.click()
    expect(page.locator("#id_outcome")).to_be_hidden()
    page.get_by_role("link", name="Clear all").click()
    page.wait_for_url("**/playground/")
