"""Deciding in a browser: by key, seen by whoever else looks at the run, and only once."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.e2e.accessibility import barriers

INBOX = "/admin/playground/actions/"
# Pairs of cells of which one lies on the other.
OVERLAPS = """cells => cells.map(cell => cell.getBoundingClientRect()).flatMap((a, i, all) => all.slice(i + 1).filter(
  b => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)).length"""

# Two presses of a hurried hand, with no answer in between.
PRESSED_TWICE = """() => {
    for (let press = 0; press < 2; press++) {
        document.activeElement.dispatchEvent(
            new KeyboardEvent('keydown', { code: 'KeyA', altKey: true, bubbles: true, cancelable: true })
        );
    }
}"""
# Letters from right to left would turn around what stands between them: whether each sign is right of the one before.
IN_ORDER = """pre => {
    pre.textContent = 'rm \u05d0/\u05d1 1';
    const left = [...pre.textContent].map((_, place) => {
        const range = document.createRange();
        range.setStart(pre.firstChild, place);
        range.setEnd(pre.firstChild, place + 1);
        return range.getBoundingClientRect().left;
    });
    return left.every((x, place) => !place || x > left[place - 1]);
}"""


def start(page: Page, configuration: str, prompt: str) -> str:
    """A run of the demo, once it waits; its address."""
    page.goto("/admin/playground/new/")
    page.select_option("#id_configuration", configuration)
    expect(page.locator("[name=tools_of]")).to_have_value(configuration)
    page.fill("#id_prompt", prompt)
    expect(page.locator("[data-preview]")).not_to_have_attribute("aria-busy", "true")
    page.locator("[data-run]").click()
    page.wait_for_url(re.compile(r"/runs/\d+/"))
    expect(page.locator("[data-action]").first).to_be_visible(timeout=60_000)
    # A card that has just appeared takes no click.
    expect(page.locator("[data-arriving]")).to_have_count(0)
    return page.url.split("#")[0]


def start_refund(page: Page) -> str:
    return start(page, "refund-desk", "DJ-48213 was charged twice. Refund the second charge.")


def test_a_decision_by_key_reaches_everybody_who_looks_at_the_run(open_page: Callable[..., Page]) -> None:  # P3
    page, phone, inbox = open_page(), open_page(width=390), open_page()
    address = start_refund(page)
    phone.goto(address)
    phone.fill("textarea[name=reason]", "Wait for the bank.")
    inbox.goto(INBOX)
    expect(inbox.locator("#actions-list")).to_contain_text("Refund 64.90 EUR")
    expect(inbox.locator("#nav-sidebar")).to_contain_text(re.compile(r"Proposed actions \(\d+\)"))
    assert phone.evaluate("document.documentElement.scrollWidth <= innerWidth")
    inbox.set_viewport_size({"width": 390, "height": 844})
    assert inbox.locator("#actions-list tbody tr").first.locator("td").evaluate_all(OVERLAPS) == 0

    page.fill("textarea[name=reason]", "Not before the bank answers.")
    page.keyboard.press("Alt+KeyR")

    for reader in (page, phone):
        expect(reader.locator("[data-action]")).to_have_count(0)
        expect(reader.locator(".pg-pill--done")).to_be_visible(timeout=60_000)
    line = page.locator(".pg-step", has=page.locator(".pg-step__i--appr"))
    expect(line).to_contain_text("denied")
    line.click()
    expect(page.locator("#step-detail")).to_contain_text("Not before the bank answers.")


def test_a_second_decision_is_refused_with_who_was_first(open_page: Callable[..., Page]) -> None:
    first, second = open_page(), open_page(expect_errors=True)
    address = start_refund(first)
    # Without the stream this page doesn't learn that the other one decides.
    second.route("**/events/**", lambda route: route.abort())
    second.route("**/updates/**", lambda route: route.abort())
    second.goto(address)
    expect(second.locator("[data-action]")).to_be_visible()

    first.get_by_role("button", name="Deny").click()
    expect(first.locator("[data-action]")).to_have_count(0)
    second.get_by_role("button", name="Approve").click()

    expect(second.locator("#run-approvals [role=alert]")).to_contain_text("Nothing was changed")
    expect(first.locator(".pg-pill--done")).to_be_visible(timeout=60_000)


def test_a_turn_of_several_calls_is_decided_one_by_one_with_the_keyboard(open_page: Callable[..., Page]) -> None:  # P2
    page, phone = open_page(), open_page(width=390, color_scheme="dark", expect_errors=True)
    address = start(page, "checkout-repair", "Orders to Austria carry too little VAT. Repair it.")
    cards, turn = page.locator("[data-action]"), page.locator(".pg-turn li")
    expect(turn).to_have_count(3)
    expect(turn.first).to_contain_text("nobody is asked")
    change, command = cards.nth(0), cards.nth(1)
    expect(change.locator(".pg-diff .del")).to_have_text(re.compile(r"AT = 0\.02$"))
    expect(change.locator(".pg-diff .add")).to_have_text(re.compile(r"AT = 0\.20$"))
    expect(command.locator("pre")).to_have_text("grep -h 'vat_rate=0.02' logs/*.log | wc -l")
    expect(command).to_contain_text("at most 10 s")
    expect(command.locator("[data-countdown]")).to_have_text(re.compile(r"in 23 h 5\d min"))
    phone.goto(address)
    assert phone.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert barriers(phone, "#run-approvals") == []

    assert page.evaluate(IN_ORDER, command.locator("pre").element_handle())

    # Which one of several is meant has to be said first.
    page.keyboard.press("Alt+KeyA")
    expect(change.locator("[value=approve]")).to_be_focused()
    expect(cards.locator("form")).to_have_count(2)
    # Whoever presses twice has decided once: the focus stays with the card, and the others are left alone.
    page.evaluate(PRESSED_TWICE)
    expect(change).to_contain_text("Approved by")
    expect(change).to_be_focused()
    expect(cards.locator("form")).to_have_count(1)
    expect(page.locator("[data-arriving]")).to_have_count(0)
    page.keyboard.press("Alt+KeyR")
    expect(command.locator("[value=deny]")).to_be_focused()
    page.keyboard.press("Alt+KeyR")

    expect(page.locator(".pg-pill--done")).to_be_visible(timeout=60_000)
    badges = page.locator(".pg-step", has=page.locator(".pg-step__i--appr")).locator(".pg-badge")
    expect(badges).to_have_text(["approved", "denied"])
    file = page.locator("#run-artifacts .pg-file", has_text="orders-to-correct.csv")
    with page.expect_download() as download:
        file.locator("a[download]").click()
    assert download.value.suggested_filename == "orders-to-correct.csv"
    assert download.value.path().read_text().startswith("order;date;gross;")
