"""The page of a run takes the place of the form that started it, and everything around that: the way back, focus, and
what goes wrong."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

NEW_RUN = "/admin/playground/new/"
RUN = re.compile(r"/runs/\d+/$|/runs/\d+/#")
CONFIGURATION = "support-triage"
MARKED = "document.documentElement.dataset.marked"


@pytest.fixture
def form(page: Page) -> Page:
    return with_form(page)


def with_form(page: Page) -> Page:
    """The form with a prompt in it, on a page that can be told from a new one."""
    page.goto(f"{NEW_RUN}?configuration={CONFIGURATION}")
    page.fill("#id_prompt", "Where is it?\nAnd since when?")
    expect(page.locator("[data-preview]")).not_to_have_attribute("aria-busy", "true")
    page.evaluate(f"{MARKED} = 'yes'")
    return page


def dry_run(page: Page) -> None:
    page.get_by_role("button", name="Dry run").click()
    page.wait_for_url(RUN)


def test_the_run_takes_the_place_of_its_form(form: Page) -> None:
    name = form.title()
    form.check("#skill_shipping-carriers")
    form.locator("[data-run]").press("Enter")
    form.wait_for_url(RUN)

    expect(form.locator("#run-head h1")).to_contain_text("Where is it?")
    assert form.evaluate(MARKED) == "yes"
    assert form.evaluate("[scrollX, scrollY, document.querySelectorAll('main').length]") == [0, 0, 1]
    expect(form.locator(".breadcrumbs")).to_contain_text(re.compile(r"LLM playground\s+› Run \d+"))
    # The tab has the name that a new page would give it, and it is said to who doesn't see it.
    assert form.title().startswith("Where is it?") and form.title().split(" | ")[1:] == name.split(" | ")[1:]
    expect(form.locator("body > [role=status]")).to_have_text(form.title())
    # Everything works as on a page of its own: steps, live updates, keys.
    expect(form.locator("#run-head .pg-pill")).to_have_text("Done")
    expect(form.locator("#step-detail h2")).to_be_visible()
    form.keyboard.press("/")
    expect(form.locator("#step-filter")).to_be_focused()
    title, heading = form.title(), form.locator("#run-head h1").inner_text()
    form.reload()
    assert (form.title(), form.locator("#run-head h1").inner_text()) == (title, heading)
    assert form.evaluate(MARKED) is None


def test_whoever_uses_keys_goes_on_where_the_page_begins(form: Page) -> None:
    form.get_by_role("button", name="Dry run").focus()
    form.keyboard.press("Enter")
    form.wait_for_url(RUN)
    assert form.evaluate("document.activeElement === document.body")
    form.keyboard.press("Tab")
    assert form.evaluate("document.querySelector('#run-head').contains(document.activeElement)")
    # The keys of the form start nothing here.
    started = form.url.split("#")[0]
    form.keyboard.press("Control+Enter")
    form.keyboard.press("j")
    expect(form.locator("#step-detail h2")).to_be_visible()
    assert form.url.split("#")[0] == started


def test_going_back_finds_the_form_as_it_was_sent(form: Page) -> None:
    form.check("#skill_shipping-carriers")
    form.fill("#id_title", "On its way")
    dry_run(form)
    expect(form.locator("#step-detail h2")).to_be_visible()
    run = form.url.split("#")[0]
    number = run.strip("/").split("/")[-1]
    # What the run doesn't hold any more, the browser does.
    form.evaluate(
        """async () => {
          const token = document.querySelector("[name=csrfmiddlewaretoken]").value;
          await fetch(`${location.pathname}about/`, { method: "POST", headers: { "X-CSRFToken": token },
            body: new URLSearchParams({ title: "Another", tags: "" }) });
        }"""
    )
    form.go_back()

    expect(form.locator("#id_prompt")).to_have_value("Where is it?\nAnd since when?")
    expect(form.locator("#id_title")).to_have_value("On its way")
    expect(form.locator("#skill_shipping-carriers")).to_be_checked()
    expect(form.get_by_role("link", name=f"run {number}")).to_be_visible()
    form.go_forward()
    expect(form.locator("#run-head h1")).to_contain_text("Another")
    expect(form.locator("#step-detail h2")).to_be_visible()
    assert form.url.split("#")[0] == run
    form.go_back()
    expect(form.locator("#id_title")).to_have_value("On its way")
    dry_run(form)
    expect(form.locator("#run-head h1")).to_contain_text("On its way")
    assert form.url.split("#")[0] != run


def test_steps_of_the_address_are_no_other_page(form: Page) -> None:
    dry_run(form)
    expect(form.locator("#step-detail h2")).to_be_visible()
    form.evaluate("location.hash = '#step-1/request'")
    expect(form.locator("#tab-request")).to_have_attribute("aria-selected", "true")
    form.go_back()
    expect(form.locator("#run-head")).to_be_visible()
    assert form.evaluate(MARKED) == "yes"


def test_a_form_that_is_refused_comes_with_the_reason(form: Page) -> None:
    form.fill("#id_prompt", "Ask {{who}}.")
    form.locator("[data-run]").click()
    expect(form.locator("#id_variable-who")).to_have_attribute("aria-invalid", "true")
    expect(form.get_by_role("alert").first).to_contain_text("Nothing was started.")
    form.fill("#id_variable-who", "the carrier")
    dry_run(form)
    expect(form.locator("#run-head h1")).to_contain_text("Ask the carrier.")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (0, "The run may have been started. The server can't be reached. Look at all runs before you send it again."),
        (502, "The run may have been started. The server answered 502. Look at all runs before you send it again."),
        (403, "Nothing was started. You may not do this any more. Nothing on this page is lost."),
        (413, "Nothing was started. It is larger than this site takes."),
        (200, "The run may have been started. The server didn't answer as expected."),
    ],
)
def test_what_goes_wrong_on_the_way_is_said_beside_the_button(
    open_page: Callable[..., Page], status: int, said: str
) -> None:
    page = with_form(open_page(expect_errors=True))
    address = f"**{NEW_RUN}?configuration={CONFIGURATION}"
    page.route(address, lambda route: route.fulfill(status=status) if status else route.abort("internetdisconnected"))
    page.locator("[data-run]").click()
    note = page.locator("[data-not-sent]")
    expect(note).to_contain_text(said)
    expect(note).to_have_role("alert")
    expect(page.locator("#id_prompt")).to_have_value("Where is it?\nAnd since when?")

    page.unroute(address)
    dry_run(page)
    expect(page.locator("#run-head")).to_be_visible()


def test_a_site_with_a_frame_of_its_own_gets_a_page_of_its_own(form: Page) -> None:
    form.evaluate("document.querySelector('.breadcrumbs').remove()")
    dry_run(form)
    expect(form.locator("#run-head h1")).to_contain_text("Where is it?")
    assert form.evaluate(MARKED) is None


def test_while_the_server_takes_its_time_one_click_is_one_run(form: Page) -> None:
    held: list[Route] = []
    form.route(f"**{NEW_RUN}?configuration={CONFIGURATION}", lambda route: held.append(route))
    button = form.locator("[data-run]")
    button.click()
    expect(form.locator("[data-new-run]")).to_have_attribute("data-sent", "yes")
    button.click()
    form.keyboard.press("Control+Enter")
    for route in held:
        route.continue_()
    form.wait_for_url(RUN)
    assert len(held) == 1
