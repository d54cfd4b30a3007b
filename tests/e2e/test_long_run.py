"""A run of 1,000 rounds in a browser: what is not on the page is a key, a click or a search away."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.products import Product

# A round of the run has four steps and two lines, a call and a tool.
LAST_CALL = 4_001
MAX_ROWS, MAX_NODES = 160, 4_000


@pytest.fixture(scope="module")
def address(product: Product) -> str:
    written = product.run("tests.e2e.recorded_long_run")
    return f"/admin/playground/runs/{written.strip()}/"


def first_of(round: int) -> int:
    return 4 * (round - 1) + 1


def open_at(page: Page, address: str, step: int) -> None:
    page.goto(f"{address}#step-{step}")
    expect_step(page, step)


def expect_step(page: Page, step: int) -> None:
    """It is chosen in the list, in sight there, and open."""
    expect(page.locator("#step-detail")).to_have_attribute("data-step", str(step))
    expect(page.locator(f"#step-{step}")).to_have_attribute("aria-selected", "true")
    expect(page.locator(f"#step-{step}")).to_be_in_viewport()


def expect_bounded(page: Page) -> None:
    assert page.locator("#step-tree .pg-step").count() < MAX_ROWS
    assert page.evaluate("document.querySelectorAll('*').length") < MAX_NODES


def test_an_address_opens_a_step_in_the_middle_and_keys_lead_on_beyond_what_is_there(page: Page, address: str) -> None:
    open_at(page, address, first_of(700))
    expect_bounded(page)
    last = page.locator("#step-tree .pg-step:not(#step-answer)").last.get_attribute("id")
    assert last

    page.locator(f"#{last}").click()
    expect_step(page, int(last[5:]))
    page.keyboard.press("j")

    expect_step(page, int(last[5:]) + 2)
    expect(page.locator("#step-tree .pg-step[tabindex='0']")).to_be_focused()
    expect_bounded(page)


def test_scrolling_goes_through_the_rounds_without_keeping_them(page: Page, address: str) -> None:
    open_at(page, address, first_of(500))
    page.locator("#step-tree").hover()

    beyond = page.locator("#round-560")
    for _ in range(200):
        if beyond.count():
            break
        page.mouse.wheel(0, 400)
        expect(page.locator("#step-tree[aria-busy]")).to_have_count(0)

    expect(beyond).to_have_count(1)
    expect(page.locator("#round-500")).to_have_count(0)
    expect(page.locator("#step-detail")).to_have_attribute("data-step", str(first_of(500)))
    expect_bounded(page)


def test_the_next_error_is_found_far_away(page: Page, address: str) -> None:
    open_at(page, address, first_of(10))

    page.keyboard.press("e")
    expect_step(page, first_of(500) + 2)
    page.keyboard.press("e")
    expect_step(page, first_of(501) + 2)
    page.keyboard.press("e")
    expect_step(page, first_of(3) + 2)


def test_the_strip_jumps_by_keys_and_clicks(page: Page, address: str) -> None:
    open_at(page, address, first_of(10))
    strip = page.get_by_role("slider", name="Round")

    strip.focus()
    strip.press("End")
    expect_step(page, LAST_CALL)
    expect(strip).to_have_attribute("aria-valuetext", "Round 1001 of 1001")
    expect(strip).to_be_focused()

    box = strip.bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 20)
    expect(strip).to_have_attribute("aria-valuetext", re.compile(r"Round (49|50)\d of 1001"))
    expect(page.locator("#step-detail h2")).to_have_text(re.compile(r"Round (49|50)\d · Model call"))


def test_filters_find_steps_that_are_not_on_the_page(page: Page, address: str) -> None:
    open_at(page, address, first_of(10))

    page.locator("[data-chip=err]").click()
    expect(page.locator("#step-tree .pg-step")).to_have_count(3)
    page.locator("[data-chip=all]").click()
    page.fill("#step-filter", "round 999")
    expect(page.locator("#step-tree .pg-step")).to_have_count(2)


def test_the_tree_says_where_one_is_and_goes_to_its_ends(page: Page, address: str) -> None:
    open_at(page, address, first_of(500))
    expect(page.locator("#round-500")).to_have_attribute("aria-posinset", "501")
    expect(page.locator("#round-500")).to_have_attribute("aria-setsize", "1002")

    page.locator(f"#step-{first_of(500)}").focus()
    page.keyboard.press("Home")
    expect(page.locator("#round-0")).to_be_focused()
    page.keyboard.press("End")
    expect(page.locator("#step-answer")).to_be_focused()


def test_a_search_goes_from_hit_to_hit_by_keys(page: Page, address: str) -> None:
    open_at(page, address, first_of(10))

    page.keyboard.press("s")
    page.keyboard.type("shelf")
    page.keyboard.press("Enter")
    expect(page.locator(".pg-hit")).to_have_count(3)
    expect(page.locator("[data-go-on]")).to_have_count(0)
    page.keyboard.press("Enter")
    expect_step(page, first_of(3) + 2)
    page.locator("#step-detail h2").click()
    page.keyboard.press("n")
    expect_step(page, first_of(500) + 2)
    page.keyboard.press("Shift+N")
    expect_step(page, first_of(3) + 2)
    assert page.evaluate("CSS.highlights.get('pg-found').size") == 1
