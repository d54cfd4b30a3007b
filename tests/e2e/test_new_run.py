"""The form of a new run in a browser: its lists, its tools, and the preview that follows what is typed."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, Route, expect

NEW_RUN = "/admin/playground/new/"


@pytest.fixture
def form(page: Page) -> Page:
    page.goto(NEW_RUN)
    choose(page, "support-triage")
    return page


def choose(page: Page, configuration: str) -> None:
    """Chooses a configuration and waits until the form and the preview have followed."""
    page.select_option("#id_configuration", configuration)
    # It may have been chosen already, and then nothing else tells that its lists are exchanged.
    expect(page.locator("#id_configuration.htmx-request")).to_have_count(0)
    expect(page.locator("[name=tools_of]")).to_have_value(configuration)
    settled(page)


def settled(page: Page) -> None:
    """Waits for the preview of what the form holds now."""
    expect(page.locator("[data-preview]")).not_to_have_attribute("aria-busy", "true")


def write(page: Page, text: str) -> None:
    page.fill("#id_prompt", text)
    settled(page)


def numbers(page: Page, field: str) -> list[str]:
    """The selected rows of a checklist as they are numbered."""
    return page.locator(f".pg-opt.is-on:has([name={field}])").all_inner_texts()


def sideways(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def user_segment(page: Page) -> Locator:
    return page.locator("#preview .pg-seg.p-user .pg-text")


def test_preview_follows_what_is_typed(form: Page) -> None:
    write(form, "Was DJ-48213 charged twice?")
    expect(user_segment(form)).to_have_text("Was DJ-48213 charged twice?")
    expect(form.locator("[data-figure=prompt]")).to_have_text(re.compile(r"^\d+ tokens$"))
    form.check("label:has([value=append])")
    form.fill("#id_system_override", "Answer in German.")
    expect(form.locator("#preview .p-override .pg-text")).to_have_text("Answer in German.")
    form.check("label:has([value=none])")
    expect(form.locator("#preview .p-override")).to_have_count(0)
    expect(form.locator("#id_system_override")).to_be_hidden()


def test_fields_of_variables_come_and_go_with_the_texts(form: Page) -> None:
    write(form, "Where is {{order}}?")
    value = form.locator("#id_variable-order")
    value.press_sequentially("DJ-1")
    expect(user_segment(form)).to_have_text("Where is DJ-1?")
    expect(user_segment(form).locator("mark")).to_have_text("DJ-1")
    value.press_sequentially(" and DJ-2")
    expect(user_segment(form)).to_have_text("Where is DJ-1 and DJ-2?")
    expect(value).to_be_focused()

    write(form, "Where is it?")
    expect(form.locator("#run_variables")).to_contain_text("used nowhere")
    value.fill("")
    expect(form.locator("#run_variables")).to_be_hidden()

    write(form, "Ask {{who}}.")
    form.click("[data-run]")
    expect(form.locator("#id_variable-who")).to_be_focused()
    expect(form.locator("#id_variable-who")).to_have_attribute("aria-invalid", "true")
    expect(form.locator("#id_prompt")).to_have_value("Ask {{who}}.")


def test_preview_keeps_its_place_and_what_was_unfolded(form: Page) -> None:
    form.set_viewport_size({"width": 1440, "height": 500})
    write(form, "One.")
    fold = form.locator("[data-unfold]").first
    fold.click()
    expect(fold).to_have_text("Show less")
    form.locator("[data-scroll]").evaluate("box => { box.scrollTop = 120 }")
    write(form, "One, two.")
    expect(form.locator("[data-unfold]").first).to_have_text("Show less")
    assert form.locator("[data-scroll]").evaluate("box => box.scrollTop") == 120


def test_answers_that_are_out_of_date_are_not_shown(form: Page) -> None:
    waiting: list[Route] = []

    def hold_the_first(route: Route) -> None:
        if waiting:
            route.continue_()
        else:
            waiting.append(route)

    form.route("**/new/preview/", hold_the_first)
    form.evaluate("window.shown = []")
    form.evaluate(
        """new MutationObserver(() => window.shown.push(document.querySelector('#preview').innerText))
           .observe(document.querySelector('[data-preview]'), {childList: true})"""
    )
    form.fill("#id_prompt", "The first text.")
    while not waiting:
        form.wait_for_timeout(20)
    form.fill("#id_prompt", "The second text.")
    waiting[0].continue_()
    expect(user_segment(form)).to_have_text("The second text.")
    assert not any("The first text." in shown for shown in form.evaluate("window.shown"))


def test_preview_that_fails_says_so_and_keeps_the_old_one(open_page: Callable[..., Page]) -> None:
    page = open_page(expect_errors=True)
    page.goto(NEW_RUN)
    write(page, "Still here.")
    page.route("**/new/preview/", lambda route: route.fulfill(status=500, body="broken"))
    page.fill("#id_prompt", "Not seen yet.")
    failed = page.locator("[data-preview-failed]")
    expect(failed).to_contain_text("This is not up to date. The server answered 500.")
    expect(user_segment(page)).to_have_text("Still here.")
    page.unroute("**/new/preview/")
    failed.get_by_role("button", name="Try again").click()
    expect(failed).to_be_hidden()
    expect(user_segment(page)).to_have_text("Not seen yet.")


def test_form_survives_that_its_user_is_logged_out(open_page: Callable[..., Page]) -> None:
    page = open_page(expect_errors=True)
    page.goto(NEW_RUN)
    page.context.clear_cookies(name="sessionid")
    page.fill("#id_prompt", "A long text that must not be lost.")
    expect(page.locator("[data-preview-failed]")).to_contain_text("You are logged out.")
    expect(page.locator("#id_prompt")).to_have_value("A long text that must not be lost.")
    assert page.url.endswith(NEW_RUN)


def test_views_show_the_same_prompt_as_text_and_as_the_exact_body(form: Page) -> None:
    write(form, 'Grüße, "quoted".')
    form.get_by_role("button", name="Plain").click()
    expect(form.locator("#preview pre").last).to_contain_text('Grüße, "quoted".')
    form.get_by_role("button", name="JSON").click()
    expect(form.locator("[data-body]")).to_contain_text('  "model": "')
    form.get_by_role("button", name="Exact").click()
    settled(form)
    sha256 = form.evaluate(
        """async () => {
            const bytes = new TextEncoder().encode(document.querySelector('[data-body]').textContent);
            const digest = await crypto.subtle.digest('SHA-256', bytes);
            return Array.from(new Uint8Array(digest), b => b.toString(16).padStart(2, '0')).join('');
        }"""
    )
    expect(form.locator("[data-sha256]")).to_have_text(sha256)
    expect(form.get_by_role("button", name="JSON")).to_have_attribute("aria-pressed", "true")
    # A change of the form keeps the view.
    write(form, "Another text.")
    expect(form.locator("[data-body]")).to_contain_text("Another text.")


def test_skills_are_chosen_found_and_ordered_by_keyboard(form: Page) -> None:
    skills = form.locator("[data-checklist]").first
    skills.locator("[data-search]").press_sequentially("gift")
    expect(skills.locator("[data-option]:visible")).to_have_count(1)
    form.keyboard.press("Enter")  # starts nothing
    form.focus("#skill_gift-cards")
    form.keyboard.press("Space")
    skills.locator("[data-search]").fill("")
    form.focus("#skill_invoice-corrections")
    form.keyboard.press("Space")
    expect(form.locator("#skill_invoice-corrections")).to_be_focused()
    assert [text.split()[0:2] for text in numbers(form, "skills")] == [["1", "Gift"], ["2", "Invoice"]]
    expect(skills.locator("[data-count]")).to_have_text(re.compile(r"^2 of \d+ selected, in this order$"))
    up = form.get_by_role("button", name="Move Invoice corrections up")
    up.focus()
    form.keyboard.press("Enter")
    expect(up).to_be_focused()
    assert [text.split()[0:2] for text in numbers(form, "skills")] == [["1", "Invoice"], ["2", "Gift"]]
    settled(form)
    forced = form.locator("#preview .pg-ledger .pg-src__n").all_inner_texts()
    assert [name for name in forced if name in ("Gift cards", "Invoice corrections")] == [
        "Invoice corrections",
        "Gift cards",
    ]
    skills.get_by_role("button", name="Only selected").click()
    expect(skills.locator("[data-option]:visible")).to_have_count(2)


def test_skill_that_does_not_fit_is_marked_in_the_list(form: Page) -> None:
    form.check("#skill_invoice-corrections")
    form.check("#skill_shipping-carriers")
    option = form.locator("[data-option=shipping-carriers]")
    expect(option.locator("[data-left-out]")).to_be_visible()
    expect(form.locator("#preview .pg-lint")).to_contain_text("Shipping carriers is left out")
    form.uncheck("#skill_shipping-carriers")
    expect(option.locator("[data-left-out]")).to_be_hidden()


def test_tools_follow_the_configuration_and_are_chosen_by_group(form: Page) -> None:
    orders = form.get_by_role("group", name="orders")
    everything = orders.locator("[data-all]")
    expect(everything).to_be_checked()
    orders.locator("#tool_get_order").uncheck()
    assert everything.evaluate("box => box.indeterminate")
    settled(form)
    expect(form.locator("#preview .p-tooldef .pg-text")).not_to_contain_text("get_order")
    everything.click()
    expect(orders.locator("[name=tools]:not(:checked)")).to_have_count(0)
    everything.click()
    expect(orders.locator("[name=tools]:checked")).to_have_count(0)
    choose(form, "shop-reports")
    expect(form.locator("#tool_sales_summary")).to_be_checked()
    expect(form.locator("#preview .p-tooldef .pg-text")).to_contain_text("sales_summary")


def test_a_preset_ticks_its_tools_and_no_others(form: Page) -> None:
    expect(form.locator("[name=tools]:checked")).not_to_have_count(0)
    form.get_by_role("button", name="Look up orders").click()
    ticked = form.locator("[name=tools]:checked")
    expect(ticked).to_have_count(4)
    names = {box.get_attribute("value") for box in ticked.all()}
    assert names == {"get_order", "list_payments", "list_refunds", "search_orders"}


def test_what_is_wrong_is_said_at_the_field_and_nothing_is_lost(form: Page) -> None:
    form.check("#snippet_no-promises")
    form.locator("[data-advanced] summary").click()
    form.fill("#id_max_rounds", "500")
    expect(form.locator("#preview")).to_contain_text("This site allows at most 50 rounds.")
    form.get_by_role("link", name="Max rounds").click()
    expect(form.locator("#id_max_rounds")).to_be_focused()
    form.get_by_role("button", name="Dry run").click()
    expect(form.locator("#prompt_errors")).to_have_text("Enter a user prompt.")
    expect(form.locator("#max_rounds_errors")).to_have_text("This site allows at most 50 rounds.")
    expect(form.locator("#id_prompt")).to_be_focused()
    expect(form.locator("#id_max_rounds")).to_have_value("500")
    expect(form.locator("#snippet_no-promises")).to_be_checked()


def test_dry_run_records_the_body_that_the_preview_showed(form: Page) -> None:
    write(form, "Two lines\nof a question.")
    form.get_by_role("button", name="JSON").click()
    shown = form.locator("[data-sha256]").inner_text()
    form.get_by_role("button", name="Dry run").click()
    form.wait_for_url(re.compile(r"/runs/\d+/"))
    pk = re.findall(r"/runs/(\d+)/", form.url)[0]
    form.goto("/admin/playground/")
    expect(form.locator(f"#run_{pk} .pg-pill--dry")).to_be_visible()
    exported = form.context.request.get(f"/admin/playground/runs/{pk}/export/").json()
    [recorded] = [step["data"]["body_sha256"] for step in exported["steps"] if step["kind"] == "assembled"]
    assert recorded == shown


def test_run_is_started_by_keyboard_and_can_be_repeated(form: Page) -> None:
    write(form, "Ctrl and Enter.")
    form.press("#id_prompt", "Control+Enter")
    form.wait_for_url(re.compile(r"/runs/\d+/"))
    pk = re.findall(r"/runs/(\d+)/", form.url)[0]
    form.goto(f"{NEW_RUN}?from={pk}")
    expect(form.locator("#id_prompt")).to_have_value("Ctrl and Enter.")
    expect(form.locator("#id_configuration")).to_have_value("support-triage")
    expect(user_segment(form)).to_have_text("Ctrl and Enter.")


def test_second_click_starts_no_second_run(form: Page) -> None:
    write(form, "Once.")
    sent: list[str] = []
    form.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    form.evaluate("() => { const run = document.querySelector('[data-run]'); run.click(); run.click(); }")
    form.wait_for_url(re.compile(r"/runs/\d+/"))
    assert [url for url in sent if url.endswith(NEW_RUN)] == sent


@pytest.mark.parametrize(("width", "color_scheme"), [(390, "light"), (390, "dark"), (768, "light"), (1440, "dark")])
def test_page_fits_every_width(open_page: Callable[..., Page], width: int, color_scheme: str) -> None:
    page = open_page(width=width, color_scheme=color_scheme)
    page.goto(NEW_RUN)
    choose(page, "support-triage")
    page.check("#skill_shipping-carriers")
    write(page, "A-word-without-any-blank-that-is-longer-than-a-phone-is-wide-" * 3)
    page.locator("[data-advanced] summary").click()
    assert sideways(page) == 0
    for view in ("Plain", "JSON"):
        page.get_by_role("button", name=view).click()
        settled(page)
        assert sideways(page) == 0
