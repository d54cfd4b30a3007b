"""The page of a run in a browser: reading a finished one by mouse and keys, and watching one while it goes on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.test_runs import cancel

DEMO_RUN = "Double charge on order DJ-48213"
# The number of rounds that the page shows by then.
SET_HIDDEN = """hidden => {
    Object.defineProperty(document, "hidden", {configurable: true, get: () => hidden});
    document.dispatchEvent(new Event("visibilitychange"));
    return document.querySelectorAll("[id^='round-']:not(#round-0)").length;
}"""
# Asks for the news of a run until they tell of a round, or of the end.
ASK_UNTIL = """async ([url, awaited]) => {
    for (;;) {
        const {events, ended} = await (await fetch(url)).json();
        if (ended || (awaited !== "the end" && events.some(event => event.data.round >= awaited))) return;
        await new Promise(done => setTimeout(done, 200));
    }
}"""
LONG_RUN = "Stock audit of all articles"


def open_run(page: Page, title: str = DEMO_RUN, anchor: str = "") -> str:
    """Opens a run that ended and waits for its first step; its address."""
    address = address_of(page, title)
    page.goto(address + anchor)
    expect(page.locator("#step-detail")).to_have_attribute("data-step", re.compile(r"\d+"))
    return address


# Of the demo runs, by title: looked for once in the product that all tests share.
addresses: dict[str, str] = {}


def address_of(page: Page, title: str) -> str:
    """The demo runs are the first that a new product has; what tests start later may have the same title."""
    if title not in addresses:
        heading = f'<span class="pg-title__t">{title}</span>'
        known = (f"/admin/playground/runs/{pk}/" for pk in range(1, 20))
        addresses[title] = next(address for address in known if heading in page.request.get(address).text())
    return addresses[title]


def start_run(page: Page) -> str:
    """Starts the demo run again and waits for its page; its address."""
    address = open_run(page)
    page.goto(f"/admin/playground/new/?from={address.rstrip('/').split('/')[-1]}")
    page.locator("[data-run]").click()
    page.wait_for_url(re.compile(r"/runs/\d+/"))
    return page.url.split("#")[0]


def expect_step(page: Page, step: int, tab: str) -> None:
    detail = page.locator("#step-detail")
    expect(detail).to_have_attribute("data-step", str(step))
    expect(detail).to_have_attribute("data-tab", tab)
    expect(page.locator(f"#step-{step}")).to_have_attribute("aria-selected", "true")
    expect(page.locator('[aria-selected="true"].pg-step')).to_have_count(1)
    expect(page).to_have_url(re.compile(f"#step-{step}/{tab}$"))


# --- reading ---


def test_every_step_and_tab_has_an_address(page: Page) -> None:
    open_run(page, anchor="#step-1/tokens")

    expect_step(page, 1, "tokens")
    page.evaluate("location.hash = '#step-4/arguments'")
    expect_step(page, 4, "arguments")


def test_the_chosen_tab_survives_a_change_of_step(page: Page) -> None:
    open_run(page)
    page.get_by_role("tab", name="Request", exact=True).click()
    expect_step(page, 1, "request")

    page.locator("#step-4").click()
    expect_step(page, 4, "result")
    page.locator("#step-8").click()
    expect_step(page, 8, "request")


def test_what_the_head_copies_follows_the_step(open_page: Callable[..., Page]) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    open_run(page, anchor="#step-1/tokens")
    copy = page.locator("#run-head button[data-curl]")
    expect(copy).to_have_text("Copy round 1 as cURL")

    # A tool run belongs to the request that asked for it.
    page.locator("#round-2 .pg-step--tool").first.click()
    expect(copy).to_have_text("Copy round 2 as cURL")
    copy.click()
    expect(copy).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("curl ") and "stream_options" in copied
    page.locator("#step-0").click()
    expect(copy).to_be_hidden()


def test_a_finding_leads_to_the_step_that_shows_it(page: Page) -> None:
    open_run(page)

    page.get_by_role("link", name="Round 2, search_orders").click()

    expect(page.locator("#step-detail h2")).to_have_text("Round 2 · search_orders")
    expect(page.locator("#step-detail")).to_have_attribute("data-tab", "result")


def test_the_keys_move_through_steps_tabs_and_errors(page: Page) -> None:
    open_run(page)
    expect_step(page, 1, "messages")

    page.keyboard.press("j")
    expect_step(page, 4, "result")
    page.keyboard.press("]")
    expect_step(page, 4, "arguments")
    page.keyboard.press("k")
    expect_step(page, 1, "messages")
    page.keyboard.press("e")
    expect(page.locator("#step-detail h2")).to_have_text("Round 2 · search_orders")
    page.keyboard.press("g")
    expect(page.locator("#answer")).to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("#pg-keys")).to_be_visible()
    page.keyboard.press("j")
    expect(page.locator("#step-detail h2")).to_have_text("Round 2 · search_orders")
    page.keyboard.press("Escape")
    expect(page.locator("#pg-keys")).to_be_hidden()


def test_keys_in_a_field_are_text(page: Page) -> None:
    open_run(page)

    page.keyboard.press("/")
    page.keyboard.type("jek[")

    expect(page.locator("#step-filter")).to_have_value("jek[")
    expect_step(page, 1, "messages")


def test_the_list_is_a_tree_with_one_tab_stop(page: Page) -> None:
    open_run(page)
    stops = page.locator('#step-tree [tabindex="0"]')
    expect(stops).to_have_count(1)

    page.locator("#step-1").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#step-4")).to_be_focused()
    expect_step(page, 4, "result")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#round-1")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#round-1")).to_have_attribute("aria-expanded", "false")
    expect(page.locator("#step-4")).to_be_hidden()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#round-2")).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#step-4")).to_be_visible()
    page.keyboard.press("End")
    expect(page.locator("#step-answer")).to_be_focused()
    expect(stops).to_have_count(1)


def test_tabs_are_moved_through_by_arrows_and_keep_the_focus(page: Page) -> None:
    open_run(page)
    page.locator("#tab-messages").focus()

    page.keyboard.press("ArrowRight")
    expect_step(page, 1, "response")
    expect(page.locator("#tab-response")).to_be_focused()
    page.keyboard.press("End")
    expect_step(page, 1, "context")
    expect(page.locator("#tab-context")).to_be_focused()
    expect(page.locator('#step-detail [role="tab"][tabindex="0"]')).to_have_count(1)


def test_the_filter_and_the_chips_narrow_the_list(page: Page) -> None:
    open_run(page)

    page.locator('[data-chip="tool"]').click()
    expect(page.locator(".pg-step:visible")).to_have_count(6)
    page.locator('[data-chip="err"]').click()
    expect(page.locator(".pg-step:visible")).to_have_count(1)
    page.fill("#step-filter", "no such step")
    expect(page.locator("[data-none]")).to_be_visible()
    page.locator("[data-clear-filter]").click()
    expect(page.locator(".pg-step:visible")).to_have_count(12)


def test_unchanged_messages_unfold_on_demand(page: Page) -> None:
    open_run(page, anchor="#step-8/messages")
    fold = page.locator("#step-panel > .pg-thread > .pg-fold")
    expect(fold.locator("li")).to_have_count(0)

    fold.locator("summary").click()
    expect(fold.locator("li")).to_have_count(5)
    fold.get_by_role("button", name="Open").first.click()
    expect(fold.locator("article")).to_contain_text("You triage support tickets")


def test_the_answer_can_be_read_both_ways(page: Page) -> None:
    open_run(page)
    expect(page.locator("#answer-rendered table")).to_be_visible()

    page.locator("#answer").get_by_role("button", name="Source").click()

    expect(page.locator("#answer-source")).to_contain_text("| Payment | Captured |")
    expect(page.locator("#answer-rendered")).to_be_hidden()


def test_a_long_run_stays_usable(page: Page) -> None:
    open_run(page, LONG_RUN)

    page.locator("#step-1").focus()
    page.keyboard.press("End")
    expect(page.locator("#step-answer")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.locator("#step-detail h2")).to_have_text("Round 40 · Model call")
    selected = page.locator('[aria-selected="true"].pg-step')
    expect(selected).to_be_in_viewport()


@pytest.mark.parametrize(("width", "color_scheme"), [(390, "light"), (820, "dark"), (1440, "light")])
def test_nothing_sticks_out_sideways(open_page: Callable[..., Page], width: int, color_scheme: str) -> None:
    page = open_page(width=width, color_scheme=color_scheme)
    open_run(page)

    for step, tabs in (
        ("8", ("messages", "response", "tools", "request", "raw", "tokens", "cache", "context")),
        ("4", ("result", "raw")),
    ):
        for tab in tabs:
            page.evaluate(f"location.hash = '#step-{step}/{tab}'")
            expect_step(page, int(step), tab)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (step, tab)


def test_on_a_small_screen_a_step_is_read_below_and_left_by_buttons(open_page: Callable[..., Page]) -> None:
    page = open_page(width=390)
    open_run(page)

    page.locator("#step-4").click()
    expect(page.locator("#step-detail h2")).to_be_in_viewport()
    page.get_by_role("button", name="Next step").click()

    expect_step(page, 5 if page.locator("#step-5").count() else 6, "result")


# --- watching ---


def test_a_run_is_watched_to_its_end_without_a_reload(page: Page) -> None:  # D4
    start_run(page)
    page.evaluate("window.stillHere = true")
    expect(page.locator(".pg-pill--running")).to_be_visible()
    page.locator("#step-filter").focus()
    expect(page.locator("#step-1")).to_be_visible()
    expect(page.locator(".pg-partial")).not_to_be_empty()

    expect(page.locator(".pg-pill--done")).to_be_visible(timeout=60_000)
    expect(page.locator("#answer-rendered")).to_contain_text("Yes, the second charge can be refunded")
    expect(page.locator(".pg-finding").first).to_be_visible()
    expect(page.locator(".pg-splits")).to_be_visible()
    assert page.evaluate("window.stillHere")
    expect(page.locator("#step-filter")).to_be_focused()

    shown = page.locator(".pg-step").evaluate_all(
        "rows => rows.map(row => row.id + row.querySelector('.t').textContent)"
    )
    page.reload()
    expect(page.locator("#step-detail")).to_have_attribute("data-step", re.compile(r"\d+"))
    again = page.locator(".pg-step").evaluate_all(
        "rows => rows.map(row => row.id + row.querySelector('.t').textContent)"
    )
    assert shown == again
    assert len(shown) == len(set(shown))


def test_the_newest_step_is_followed_until_the_reader_chooses_another(page: Page) -> None:
    start_run(page)
    expect(page.locator("#follow")).to_be_checked()
    # The second, unless the page came later than that.
    expect(page.locator("#step-detail h2")).to_contain_text(re.compile("Round [234]"))
    assert page.evaluate("document.activeElement === document.body")

    page.locator("#step-1").click()
    expect(page.locator("#follow")).not_to_be_checked()
    expect(page.locator("#round-3")).to_be_visible()
    expect(page.locator("#step-detail")).to_have_attribute("data-step", "1")
    expect(page.locator("#step-1")).to_be_focused()

    page.locator("#follow").check()
    expect(page.locator("#step-detail")).not_to_have_attribute("data-step", "1")


def test_a_run_is_cancelled_without_leaving_the_page(page: Page) -> None:  # D2
    start_run(page)
    expect(page.locator(".pg-pill--running")).to_be_visible()
    page.evaluate("window.stillHere = true")

    page.get_by_role("button", name="Cancel").click()

    expect(page.locator(".pg-pill--cancelled")).to_be_visible()
    expect(page.locator("#run-note")).to_contain_text("Cancelled")
    expect(page.get_by_role("link", name="Re-run")).to_be_visible()
    assert page.evaluate("window.stillHere")


def test_without_a_stream_the_page_asks(open_page: Callable[..., Page]) -> None:
    page = open_page(expect_errors=True)
    page.route("**/events/**", lambda route: route.abort())
    start_run(page)
    expect(page.locator("#round-2")).to_be_visible(timeout=30_000)

    page.get_by_role("button", name="Cancel").click()

    expect(page.locator("#run-note")).to_contain_text("Cancelled by", timeout=30_000)
    expect(page.locator("#run-lost")).to_be_hidden()


def test_a_hidden_page_lets_go_and_catches_up(page: Page) -> None:  # D4
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/events/" in request.url else None)
    start_run(page)
    expect(page.locator("#step-1")).to_be_visible()
    shown = page.evaluate(SET_HIDDEN, True)
    updates = page.url.split("#")[0] + "updates/"
    known = len(asked)
    page.evaluate(ASK_UNTIL, [updates, shown + 1])
    cancel(page, updates.split("/")[-3])
    page.evaluate(ASK_UNTIL, [updates, "the end"])
    assert len(asked) == known
    expect(page.locator(".pg-pill--running")).to_be_visible()
    expect(page.locator(f"#round-{shown + 1}")).to_have_count(0)
    page.evaluate(SET_HIDDEN, False)

    expect(page.locator(".pg-pill--cancelled")).to_be_visible()
    expect(page.locator(f"#round-{shown + 1}")).to_be_visible()


def test_a_wait_for_a_permit_is_shown_until_it_is_over(page: Page, recorded: dict[str, int]) -> None:  # S4
    over = {"html": '<div id="run-waiting"></div>', "message": "The run goes on."}
    let_go: list[bool] = []

    def tell(route: Route) -> None:
        body = f"event: permit\ndata: {json.dumps(over)}\n\n" if let_go else "event: beat\ndata: {}\n\n"
        route.fulfill(status=200, content_type="text/event-stream", body=body)

    page.route("**/events/**", tell)
    page.route("**/updates/**", lambda route: route.fulfill(json={"events": [], "ended": False}))
    page.goto(f"/admin/playground/runs/{recorded['waiting']}/")
    expect(page.locator("#run-waiting")).to_contain_text("Waiting for a permit: 3rd of 5 for Demo model.")
    expect(page.locator("[data-partial-state]")).to_have_text("Waiting for a permit: 3rd of 5 for Demo model")
    expect(page.locator("#round-2 .bars .f-permit.pg-live-bar")).to_be_attached()
    let_go.append(True)

    expect(page.locator("#run-waiting .pg-note")).to_have_count(0)
    expect(page.locator("#run-status")).to_have_text("The run goes on.")
    expect(page.locator("[data-partial-state]")).to_have_text("Waiting for the model")


def test_steps_arrive_once_over_a_connection_that_keeps_breaking(open_page: Callable[..., Page]) -> None:  # D4
    page = open_page(expect_errors=True)

    def cut(route: Route) -> None:
        """The news so far, then the end of the connection."""
        response = page.request.get(route.request.url.replace("/events/", "/updates/"))
        body = "".join(
            (f"id: {event['id']}\n" if event["id"] else "")
            + f"event: {event['event']}\ndata: {json.dumps(event['data'])}\n\n"
            for event in response.json()["events"]
        )
        route.fulfill(status=200, content_type="text/event-stream", body=body)

    page.route("**/events/**", cut)
    start_run(page)

    expect(page.locator(".pg-pill--done")).to_be_visible(timeout=60_000)
    expect(page.locator(".pg-step")).to_have_count(12)
    ids = page.locator(".pg-step").evaluate_all("rows => rows.map(row => row.id)")
    assert len(ids) == len(set(ids))
