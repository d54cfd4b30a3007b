"""No page and no state of a page has a serious or critical barrier for people who use assistive technology."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from llmcore.runs.outcome import EndReason
from tests.e2e.accessibility import barriers
from tests.e2e.test_run_page import DEMO_RUN, address_of

CALL_TABS = {"messages", "response", "thinking", "tools", "request", "raw", "tokens", "cache"}
RUNTIME = ("provider", "languagemodel", "configuration", "skill", "snippet", "toolpreset", "toolswitch", "usagerecord")
# Puts parts of other pages beside each other: one look at them all takes the time of one. Names that have to be unique
# in a page are made so, and what they name still is named.
GATHER = """async ([wanted, place]) => {
    const names = ['id', 'for', 'aria-labelledby', 'aria-controls', 'aria-describedby'];
    const parts = await Promise.all(wanted.map(async ([address, selectors]) => {
        const response = await fetch(address, {headers: {'HX-Request': 'true'}});
        const page = new DOMParser().parseFromString(await response.text(), 'text/html');
        return selectors.map(selector => document.adoptNode(page.querySelector(selector)));
    }));
    const box = document.querySelector(place);
    box.replaceChildren();
    parts.flat().forEach((part, number) => {
        for (const element of [part, ...part.querySelectorAll('*')]) {
            for (const name of names) {
                const value = element.getAttribute(name);
                if (value) element.setAttribute(name, value.split(' ').map(id => `${id}--${number}`).join(' '));
            }
        }
        box.append(part);
        htmx.process(part);
    });
}"""
# The details of steps of which no kind with such a tab was seen before: [kind and tab, tab, address].
DETAILS = """async before => {
    const found = [], seen = new Set(before);
    for (const row of document.querySelectorAll('.pg-step:not(#step-answer)')) {
        const address = document.getElementById('inspector').dataset.stepUrl.replace('/0/', `/${row.id.slice(5)}/`);
        const response = await fetch(address, {headers: {'HX-Request': 'true'}});
        const page = new DOMParser().parseFromString(await response.text(), 'text/html');
        for (const tab of page.querySelectorAll('[role=tab]')) {
            const key = `${row.className} ${tab.dataset.tab}`;
            if (!seen.has(key)) found.push([key, tab.dataset.tab, `${address}?tab=${tab.dataset.tab}`]);
            seen.add(key);
        }
    }
    return found;
}"""


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


def test_each_end_of_a_run_is_accessible(page: Page, recorded: dict[str, int]) -> None:  # L14
    open_run(page, recorded["interrupted"])
    found = barriers(page)
    # The rest is the same on all of them.
    runs = [f"/admin/playground/runs/{recorded[reason.value]}/" for reason in EndReason]
    page.evaluate(GATHER, [[[run, ["#run-head", "#run-note"]] for run in runs], ".pg-result"])
    expect(page.locator(".pg-result .pg-head")).to_have_count(len(EndReason))
    found += barriers(page, ".pg-result")

    assert not found, "\n".join(found)


def test_a_run_that_goes_on_is_accessible(page: Page, recorded: dict[str, int]) -> None:
    open_run(page, recorded["running"])
    expect(page.locator(".pg-partial")).to_be_visible()
    found = barriers(page)
    page.route(re.compile("/(events|updates)/"), lambda route: route.abort())
    page.route("**/steps/**", lambda route: route.fulfill(status=500, body="broken"))
    page.evaluate("window.dispatchEvent(new Event('offline'))")
    page.locator("#step-1").click()
    expect(page.locator("#run-lost")).to_be_visible()
    expect(page.locator("[data-retry]")).to_be_visible()
    found += [f"lost {line}" for line in barriers(page, ".pg")]
    states = ("queued", "waiting", "stopping", "awaiting", "awaiting another")
    runs = [f"/admin/playground/runs/{recorded[state]}/" for state in states]
    parts = ["#run-head", "#run-approvals", "#run-waiting", "#run-summary"]
    page.evaluate(GATHER, [[[run, parts] for run in runs], ".pg-result"])
    expect(page.locator(".pg-result [data-action]")).to_have_count(2)
    found += [f"gathered {line}" for line in barriers(page, ".pg-result")]

    assert not found, "\n".join(found)


def test_each_tab_of_each_kind_of_step_is_accessible(page: Page, recorded: dict[str, int]) -> None:
    found = []
    seen: dict[str, str] = {}
    for state in ("provider_failed", "internal_error", "awaiting", "invalid_answer"):
        open_run(page, recorded[state])
        details = page.evaluate(DETAILS, list(seen))
        seen |= {key: tab for key, tab, _ in details}
        page.evaluate(GATHER, [[[address, ["#step-detail"]] for *_, address in details], "#pg-detail"])
        expect(page.locator("#pg-detail [role=tabpanel]")).to_have_count(len(details))
        unfold(page, "#pg-detail")
        found += [f"{state} {line}" for line in barriers(page, "#pg-detail")]

    assert set(seen.values()) >= CALL_TABS | {
        "start",
        "result",
        "arguments",
        "traceback",
        "error",
        "validation",
        "schemas",
        "context",
        "summary",
        "before",
    }
    assert not found, "\n".join(found)


def test_what_opens_on_the_page_of_a_run_is_accessible(page: Page, recorded: dict[str, int]) -> None:
    open_run(page, recorded["completed"])
    found = []
    page.keyboard.press("?")
    expect(page.locator("#pg-keys")).to_be_visible()
    found += barriers(page, "#pg-keys")
    page.keyboard.press("Escape")
    page.locator("#run-about-open").click()
    expect(page.locator("#run-about form")).to_be_visible()
    page.locator("#step-filter").fill("nothing has this name")
    expect(page.locator("[data-none]")).to_be_visible()
    found += barriers(page, ".pg")

    assert not found, "\n".join(found)


def test_the_page_of_a_long_run_and_the_search_in_it_are_accessible(page: Page, recorded: dict[str, int]) -> None:
    open_run(page, recorded["long"])
    found = barriers(page, "#inspector")
    page.locator("#run-search").fill("order")
    page.locator("#run-search").press("Enter")
    expect(page.locator(".pg-hit").first).to_be_visible()
    found += [f"search {line}" for line in barriers(page, ".pg-runsearch")]

    assert not found, "\n".join(found)


def test_the_page_of_a_run_is_accessible_on_a_phone(open_page: Callable[..., Page], recorded: dict[str, int]) -> None:
    page = open_page(width=390, height=844, expect_errors=True)
    open_run(page, recorded["max_rounds"])

    assert not (found := barriers(page)), "\n".join(found)


def test_a_new_run_is_accessible_in_each_of_its_views(page: Page) -> None:
    page.goto("/admin/playground/new/")
    preview = page.locator("#preview")
    expect(preview).to_have_attribute("data-figure-prompt", re.compile(r"\d"))
    unfold(page, "#new_run")
    found = barriers(page)
    for view in ("Plain", "JSON", "By source"):
        with page.expect_response("**/preview/"):
            page.get_by_role("button", name=view, exact=True).click()
        expect(page.locator(".htmx-request")).to_have_count(0)
        unfold(page, "#preview")
        found += [f"{view} {line}" for line in barriers(page, "#preview")]
    page.locator("[name=override][value=replace]").check(force=True)
    page.locator("#id_max_rounds").fill("-1")
    expect(preview).to_contain_text("There is no preview of this yet")
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
    one_run = f"a={a}&b={a}&a_round=1&b_round=2"
    for query in (f"a={a}&b={b}", f"a={c}&b={a}&view=side", f"run={a}&run={b}&run={c}", one_run):
        page.goto(f"/admin/playground/compare/?{query}")
        unfold(page, ".pg-compare")
        found += [f"{query} {line}" for line in barriers(page, "#content")]
        assert page.evaluate("document.documentElement.scrollWidth") <= width, query

    assert not found, "\n".join(found)


def test_a_fork_is_accessible(page: Page) -> None:
    page.goto(f"{address_of(page, DEMO_RUN)}fork/?at=3")
    expect(page.locator("#preview")).to_have_attribute("data-figure-prompt", re.compile(r"\d"))
    unfold(page, "#new_run")
    expect(page.locator("[data-message] textarea").first).to_be_visible()

    assert not (found := barriers(page, ".pg")), "\n".join(found)


def test_the_list_of_runs_is_accessible(page: Page, recorded: dict[str, int]) -> None:
    found = []
    # Rows are the same on all of them, but for the words that were found.
    some_rows = "#runs_table tbody tr:nth-child(-n+3)"
    parts = {"": None, "?q=order": some_rows, "?q=nothing+has+these+words": ".pg", "?since=2000-13-77": ".pg-filters"}
    for query, part in parts.items():
        page.goto(f"/admin/playground/{query}")
        expect(page.locator("#runs_table, .pg-state").first).to_be_visible()
        if (boxes := page.locator('input[name="run"]')).count():
            boxes.first.check()
        found += [f"{query} {line}" for line in barriers(page, part)]

    assert not found, "\n".join(found)


def test_the_other_pages_are_accessible(page: Page, recorded: dict[str, int]) -> None:
    done, failed = (f"/admin/playground/runs/{recorded[end]}" for end in ("completed", "provider_failed"))
    addresses = {
        "/admin/playground/actions/": "#actions-list tbody tr",
        "/admin/playground/calls/": ".pg-state",
        f"{done}/delete/": ".pg-panel",
        f"{failed}/since/": ".pg-head",
        "/admin/llmcore/skill/1/versions/1/": ".version-page",
        "/admin/llmcore/configuration/1/versions/1/": ".version-page",
        "/admin/llmcore/skill/1/history/": "#content",
        "/admin/playground/decisionrecord/": "#changelist",
        "/admin/playground/structured/?prompt=tabletop.scene_descriptions": ".pg-manifest",
    }
    found = []
    for address, shown in addresses.items():
        page.goto(address)
        expect(page.locator(shown).first).to_be_visible()
        found += [f"{address} {line}" for line in barriers(page, "#content")]
    page.goto("/admin/playground/actions/")
    page.get_by_role("link", name="Session table-7").click()
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    found += [f"action of an engine {line}" for line in barriers(page, "#content")]
    page.goto("/admin/llmcore/actionrule/try/")
    found += [f"try {line}" for line in barriers(page, "#content")]
    page.get_by_role("button", name="Try").click()
    expect(page.locator(".errorlist, .rule-result").first).to_be_visible()
    found += [f"tried {line}" for line in barriers(page, "#content")]

    assert not found, "\n".join(found)


def test_the_lists_and_forms_of_the_runtime_are_accessible(page: Page) -> None:
    found = []
    for path in RUNTIME:
        page.goto(f"/admin/llmcore/{path}/")
        found += [f"{path} {line}" for line in barriers(page, None if path == RUNTIME[0] else "#content")]
        row = page.locator("#result_list tbody th a").first
        if row.count():
            row.click()
            expect(page.locator("#content-main form").first).to_be_visible()
            found += [f"{path} form {line}" for line in barriers(page, "#content")]

    assert not found, "\n".join(found)


def test_the_login_page_is_accessible(page: Page) -> None:
    page.context.clear_cookies()
    page.goto("/admin/login/?next=/admin/playground/")

    assert not (found := barriers(page)), "\n".join(found)
