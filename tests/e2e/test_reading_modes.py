"""The pages for who uses keys, forced colors, no motion, or a thumb."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.test_run_page import DEMO_RUN, address_of

NEW_RUN = "/admin/playground/new/"
# The element that has the focus: where it is on the page, in which part of it, and whether it can be seen there.
FOCUSED = """() => {
    const element = document.activeElement;
    if (!element || !element.closest('.pg')) return null;
    window.visited = window.visited || [];
    // A date has a stop for each of its parts.
    if (window.visited.at(-1) === element) return {part_of_the_same: true};
    if (window.visited.includes(element)) return {again: true};
    window.visited.push(element);
    const shown = element.matches('[type=radio], [type=checkbox]') && element.closest('label') || element;
    const box = (shown.matches('.pg-round') ? shown.querySelector('.pg-round__h') : shown).getBoundingClientRect();
    const place = {left: box.left, right: box.right, top: box.top, bottom: box.bottom};
    let list = null;
    let below = 0;
    for (let around = element.parentElement; around; around = around.parentElement) {
        place.left += around.scrollLeft;
        place.right += around.scrollLeft;
        place.top += around.scrollTop;
        place.bottom += around.scrollTop;
        if (around.scrollTop && around !== document.documentElement && !list) {
            list = around;
            below = Math.max(place.bottom - around.getBoundingClientRect().bottom, 0);
        }
    }
    window.lists = window.lists || [null];
    if (!window.lists.includes(list)) window.lists.push(list);
    const part = element.closest('.pg-head, .pg-note, .pg-steps, #pg-detail, .pg-result__side, .pg-panel');
    const at = document.elementFromPoint(
        Math.min(box.x + box.width / 2, innerWidth - 2), Math.min(box.y + box.height / 2, innerHeight - 2));
    return {
        name: element.id || element.textContent.trim().slice(0, 30) || element.outerHTML.slice(0, 60),
        part: part ? part.id || part.className : 'page',
        inTree: element.closest('[role=tree]') !== null,
        ...place, list: window.lists.indexOf(list), below,
        seen: at !== null && (shown.contains(at) || at.contains(shown)),
    };
}"""
# What is pressed and smaller than `least`, links inside of sentences apart.
SMALL = """least => [...document.querySelectorAll('.pg :is(button, a[href], input, select, textarea, summary,'
  + ' [role=tab], [role=treeitem], [role=slider])')].filter(element => {
    if (!element.checkVisibility({visibilityProperty: true, opacityProperty: true})) return false;
    if (element.matches('a') && getComputedStyle(element).display === 'inline') return false;
    const shown = (element.matches('[type=checkbox], [type=radio]') && element.labels[0])
      || (element.matches('.pg-round') && element.querySelector('.pg-round__h')) || element;
    const {width, height} = shown.getBoundingClientRect();
    return width > 2 && Math.min(width, height) + .5 < least;
  }).map(element => `${element.outerHTML.slice(0, 120)} ${element.getBoundingClientRect().height}`)"""


def open_run(page: Page, pk: int, anchor: str = "") -> None:
    page.goto("about:blank")
    page.goto(f"/admin/playground/runs/{pk}/{anchor}")
    expect(page.locator("#step-detail h2")).to_be_visible()


def outline(locator: Locator) -> tuple[str, str, str]:
    style: dict[str, str] = locator.evaluate(
        "element => (({outlineStyle, outlineWidth, outlineColor}) => ({outlineStyle, outlineWidth, outlineColor}))"
        "(getComputedStyle(element))"
    )
    return style["outlineStyle"], style["outlineWidth"], style["outlineColor"]


def test_what_is_chosen_is_seen_in_forced_colors(open_page: Callable[..., Page], recorded: dict[str, int]) -> None:
    page = open_page(forced_colors="active")
    open_run(page, recorded["completed"], "#step-1/messages")
    highlight = page.evaluate(
        "() => { const probe = document.body.appendChild(document.createElement('i'));"
        "probe.style.color = 'Highlight'; return getComputedStyle(probe).color }"
    )

    chosen = {
        ".pg-step": '[aria-selected="true"]',
        "#step-detail [role=tab]": '[aria-selected="true"]',
        ".pg-chip": '[aria-pressed="true"]',
        "#answer .pg-btngroup .pg-btn": '[aria-pressed="true"]',
    }
    for kind, choice in chosen.items():
        assert outline(page.locator(f"{kind}{choice}")) == ("solid", "2px", highlight), kind
        assert outline(page.locator(f"{kind}:not({choice})").first)[0] == "none", kind
    # An edge that is transparent otherwise would show on every tab.
    edges = page.locator("#step-detail [role=tab]").evaluate_all(
        "tabs => tabs.map(tab => getComputedStyle(tab).borderBottomColor)"
    )
    assert len(set(edges)) == 2

    open_run(page, recorded["running"])
    background = page.locator("#run-head .pg-pulse").evaluate("pulse => getComputedStyle(pulse).backgroundColor")
    assert background != page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_nothing_moves_for_who_wants_no_motion(open_page: Callable[..., Page], recorded: dict[str, int]) -> None:
    moving = "document.getAnimations().filter(one => one.playState === 'running').length"
    fading = (
        "[...document.querySelectorAll('.pg *')].filter(one => !getComputedStyle(one).transitionDuration.split(', ')"
        ".every(time => time === '0s')).length"
    )
    page = open_page()
    open_run(page, recorded["running"])
    assert page.evaluate(moving) > 0 and page.evaluate(fading) > 0

    page.emulate_media(reduced_motion="reduce")

    for selector in ("#run-head .pg-pulse", ".pg-caret", ".pg-live-bar"):
        expect(page.locator(selector).first).to_be_attached()
        name = page.locator(selector).first.evaluate("element => getComputedStyle(element).animationName")
        assert name == "none", selector
    assert page.evaluate(moving) == 0 and page.evaluate(fading) == 0


def walk(page: Page) -> list[dict[str, Any]]:
    """What Tab goes through inside of the page's own content, until it leaves it."""
    page.locator("div.pg").evaluate("pg => { pg.tabIndex = -1; pg.focus(); window.visited = [pg] }")
    stops = []
    for _ in range(300):
        page.keyboard.press("Tab")
        stop = page.evaluate(FOCUSED)
        if stop is None:
            return stops
        assert "again" not in stop, "the focus is caught"
        if "part_of_the_same" not in stop:
            stops.append(stop)
    raise AssertionError("the focus never leaves the page")


def in_sight(stop: dict[str, Any]) -> dict[str, Any]:
    """Where a stop would be if the list around it were scrolled to it."""
    return {**stop, "top": stop["top"] - stop["below"], "bottom": stop["bottom"] - stop["below"]}


def goes_back(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether `after` stands before `before` where one reads from left to right and down, or column by column."""
    if before["list"] != after["list"]:
        # What is far down in a list that scrolls still stands before what comes after the list.
        before, after = in_sight(before), in_sight(after)
    if before["top"] <= after["top"] and after["bottom"] <= before["bottom"] and after["left"] >= before["left"]:
        # What scrolls is reached before what is in it.
        return False
    was, now = (before["top"] + before["bottom"]) / 2, (after["top"] + after["bottom"]) / 2
    if abs(now - was) < min(before["bottom"] - before["top"], after["bottom"] - after["top"]) / 2:
        return bool(after["right"] <= before["left"] + 4)
    return bool(now < was and after["left"] < before["right"] - 4)


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("address", ["run", NEW_RUN, "/admin/playground/?status=cancelled"])
def test_tab_goes_through_a_page_as_it_is_read(
    open_page: Callable[..., Page], recorded: dict[str, int], address: str, width: int
) -> None:
    page = open_page(width=width, reduced_motion="reduce")
    if address == "run":
        open_run(page, recorded["interrupted"])
    else:
        page.goto(address)
        expect(page.locator(".pg-estimate, #runs_table").first).to_be_visible()

    stops = walk(page)

    assert len(stops) > 15
    parts = [stop["part"] for stop in stops]
    visited = [part for part, before in zip(parts, ["", *parts[:-1]], strict=True) if part != before]
    assert len(visited) == len(set(visited)), visited
    pairs = [(one, other) for one, other in pairwise(stops) if one["part"] == other["part"]]
    assert not [(one["name"], other["name"]) for one, other in pairs if goes_back(one, other)]
    assert not [stop["name"] for stop in stops if not stop["seen"]]
    assert sum(stop["inTree"] for stop in stops) == (1 if address == "run" else 0)


@pytest.mark.parametrize(("width", "least"), [(390, 32), (1440, 24)])
def test_what_is_pressed_is_large_enough(
    open_page: Callable[..., Page], recorded: dict[str, int], width: int, least: int
) -> None:
    page = open_page(width=width)
    found = []
    open_run(page, recorded["max_rounds"], "#step-5/messages")
    for tab in ("messages", "response", "thinking", "tools", "request", "raw", "tokens"):
        page.locator(f"#tab-{tab}").click()
        expect(page.locator("#step-detail")).to_have_attribute("data-tab", tab)
        page.locator("#step-panel details:not([open]) > summary").evaluate_all("all => all.forEach(one => one.click())")
        found += [f"{tab} {small}" for small in page.evaluate(SMALL, least)]
    long = f"/admin/playground/runs/{recorded['long']}/"
    fork = f"{address_of(page, DEMO_RUN)}fork/?at=3"
    for address in (long, "/admin/playground/?q=order&when=30d", NEW_RUN, fork, f"{long}delete/"):
        page.goto(address)
        expect(page.locator("#step-detail h2, .pg-panel, .pg-tablewrap").first).to_be_visible()
        found += [f"{address} {small}" for small in page.evaluate(SMALL, least)]

    assert not found, "\n".join(found)


def test_each_page_lists_its_keys(page: Page) -> None:
    keys = page.locator("#pg-keys")
    for address, field in (("/admin/playground/", "[data-search]"), (NEW_RUN, "#id_prompt")):
        page.goto(address)
        page.locator(field).press("?")
        expect(keys).to_be_hidden()
        expect(page.locator(field)).to_have_value("?")
        page.locator(field).fill("")
        page.locator(field).blur()
        page.keyboard.press("?")
        expect(keys).to_be_visible()
        expect(keys.get_by_role("button", name="Close")).to_be_focused()
        page.keyboard.press("Escape")
        expect(keys).to_be_hidden()


def test_below_a_step_stays_a_bar_that_leads_on(open_page: Callable[..., Page], recorded: dict[str, int]) -> None:
    page = open_page(width=390, height=700)
    open_run(page, recorded["completed"], "#step-1/messages")
    bar = page.locator(".pg-stepnav")

    page.locator("#step-detail .pg-tabs").scroll_into_view_if_needed()
    expect(bar).to_be_in_viewport(ratio=1)
    expect(bar).to_contain_text("Round 1 · Model call")
    bar.get_by_role("button", name="Next step").click()

    expect(bar).to_contain_text("Round 1 · look_up")
    expect(page.locator("#step-detail h2")).to_be_in_viewport()
    bar.get_by_role("button", name="Previous step").click()
    expect(bar).to_contain_text("Round 1 · Model call")
