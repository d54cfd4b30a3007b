"""No page and no state of a page has a serious or critical barrier for people who use assistive technology."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from llmcore.runs.outcome import EndReason
from tests.e2e.accessibility import barriers

CALL_TABS = ("messages", "response", "thinking", "tools", "request", "raw", "tokens", "cache")


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    """A logged-in page, of which axe-core wants more than the content policy allows: it says so on the console."""
    return open_page(expect_errors=True)


def open_run(page: Page, pk: int, anchor: str = "") -> None:
    # Only another path makes a browser load a page anew.
    page.goto("about:blank")
    page.goto(f"/admin/playground/runs/{pk}/{anchor}")
    expect(page.locator("#step-detail")).to_have_attribute("data-step", re.compile(r"\d+"))


def unfold(page: Page, part: str) -> None:
    page.locator(f"{part} details:not([open]) > summary").evaluate_all("all => all.forEach(one => one.click())")
    expect(page.locator(".htmx-request")).to_have_count(0)


@pytest.mark.parametrize("reason", list(EndReason))
def test_each_end_of_a_run_is_accessible(page: Page, recorded: dict[str, int], reason: EndReason) -> None:  # L14
    open_run(page, recorded[reason.value])

    # The rest is the same on all of them.
    found = barriers(page, None if reason == EndReason.INTERRUPTED else "#run-head, #run-note")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("state", ["queued", "running", "stopping"])
def test_a_run_that_goes_on_is_accessible(page: Page, recorded: dict[str, int], state: str) -> None:
    open_run(page, recorded[state])
    expect(page.locator("#run-head .pg-pill").first).to_be_visible()

    assert not (found := barriers(page)), "\n".join(found)


def test_each_tab_of_each_kind_of_step_is_accessible(page: Page, recorded: dict[str, int]) -> None:
    open_run(page, recorded["provider_failed"])
    steps = page.locator(".pg-step").evaluate_all("rows => rows.map(row => row.id)")
    found = []
    seen = set()
    for step in steps:
        page.locator(f"#{step}").click()
        expect(page.locator("#step-detail")).to_have_attribute("data-step", step.removeprefix("step-"))
        tabs = page.locator("#step-detail [role=tab]").evaluate_all("tabs => tabs.map(tab => tab.dataset.tab)")
        kind = page.locator(f"#{step}").get_attribute("class")
        for tab in tabs:
            if (kind, tab) in seen:
                continue
            seen.add((kind, tab))
            page.locator(f"#tab-{tab}").click()
            expect(page.locator("#step-detail:not([aria-busy])")).to_have_attribute("data-tab", tab)
            unfold(page, "#step-panel")
            found += [f"{step}/{tab} {line}" for line in barriers(page, "#step-detail")]

    assert {tab for _, tab in seen} >= {*CALL_TABS, "start", "result", "arguments", "traceback", "error"}
    assert not found, "\n".join(found)


def test_what_opens_on_the_page_of_a_run_is_accessible(page: Page, recorded: dict[str, int]) -> None:
    open_run(page, recorded["completed"])
    found = []
    page.keyboard.press("?")
    expect(page.locator("#pg-keys")).to_be_visible()
    found += barriers(page)
    page.keyboard.press("Escape")
    page.locator("#run-about-open").click()
    expect(page.locator("#run-about form")).to_be_visible()
    found += barriers(page)
    page.locator("#step-filter").fill("nothing has this name")
    expect(page.locator("[data-none]")).to_be_visible()
    found += barriers(page)

    assert not found, "\n".join(found)


def test_the_page_of_a_long_run_and_the_search_in_it_are_accessible(page: Page, recorded: dict[str, int]) -> None:
    open_run(page, recorded["long"])
    found = barriers(page, "#inspector")
    page.locator("#step-filter").fill("look_up")
    expect(page.locator(".htmx-request")).to_have_count(0)
    found += [f"search {line}" for line in barriers(page, "#inspector")]

    assert not found, "\n".join(found)


def test_the_page_of_a_run_is_accessible_on_a_phone(open_page: Callable[..., Page], recorded: dict[str, int]) -> None:
    page = open_page(width=390, height=844, expect_errors=True)
    open_run(page, recorded["max_rounds"])

    assert not (found := barriers(page)), "\n".join(found)


def test_a_new_run_is_accessible_in_each_of_its_views(page: Page) -> None:
    page.goto("/admin/playground/new/")
    preview = page.locator("#preview")
    expect(preview).to_have_attribute("data-figure-prompt", re.compile(r"\d"))
    found = barriers(page)
    for view in ("Plain", "JSON", "By source"):
        with page.expect_response("**/preview/"):
            page.get_by_role("button", name=view, exact=True).click()
        expect(page.locator(".htmx-request")).to_have_count(0)
        unfold(page, "#preview")
        found += [f"{view} {line}" for line in barriers(page, "#preview")]
    unfold(page, "#new_run")
    page.locator("[name=override][value=replace]").check(force=True)
    page.locator("#id_max_rounds").fill("-1")
    expect(preview).to_contain_text("There is no preview of this yet")
    found += [f"invalid {line}" for line in barriers(page, ".pg")]
    page.locator("[data-run]").click()
    expect(page.locator("[data-form-errors]")).to_be_visible()
    found += [f"refused {line}" for line in barriers(page, ".pg")]

    assert not found, "\n".join(found)


@pytest.mark.parametrize("width", [390, 1440])
def test_a_comparison_is_accessible_and_keeps_to_the_page(
    open_page: Callable[..., Page], recorded: dict[str, int], width: int
) -> None:
    page = open_page(width=width, height=900, expect_errors=True)
    found = []
    a, b, c = (recorded[reason] for reason in ("completed", "max_rounds", "provider_failed"))
    for query in (f"a={a}&b={b}", f"a={c}&b={a}&view=side", f"run={a}&run={b}&run={c}"):
        page.goto(f"/admin/playground/compare/?{query}")
        unfold(page, ".pg-compare")
        found += [f"{query} {line}" for line in barriers(page)]
        assert page.evaluate("document.documentElement.scrollWidth") <= width, query

    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "query",
    ["", "?status=failed", "?q=order", "?q=nothing+has+these+words", "?since=2000-13-77"],
    ids=lambda q: q or "all",
)
def test_the_list_of_runs_is_accessible(page: Page, recorded: dict[str, int], query: str) -> None:
    page.goto(f"/admin/playground/{query}")
    expect(page.locator("#runs_table, .pg-state").first).to_be_visible()
    if (boxes := page.locator('input[name="run"]')).count():
        boxes.first.check()

    assert not (found := barriers(page)), "\n".join(found)


def test_the_question_whether_to_delete_is_accessible(page: Page, recorded: dict[str, int]) -> None:
    page.goto(f"/admin/playground/runs/{recorded['completed']}/delete/")

    assert not (found := barriers(page)), "\n".join(found)


@pytest.mark.parametrize(
    "path", ["provider", "languagemodel", "configuration", "skill", "snippet", "toolswitch", "usagerecord"]
)
def test_the_lists_and_forms_of_the_runtime_are_accessible(page: Page, path: str) -> None:
    page.goto(f"/admin/llmcore/{path}/")
    found = barriers(page)
    row = page.locator("#result_list tbody th a").first
    if row.count():
        row.click()
        expect(page.locator("#content-main form").first).to_be_visible()
        found += barriers(page)

    assert not found, "\n".join(found)


def test_the_login_page_is_accessible(page: Page) -> None:
    page.context.clear_cookies()
    page.goto("/admin/login/?next=/admin/playground/")

    assert not (found := barriers(page)), "\n".join(found)
