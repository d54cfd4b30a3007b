"""The admin's own pages work in a browser under the strict content policy."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.llmcore.mcp_servers import serve_shop

KEY = "sk-browser-0123456789"


def save(page: Page, button: str = "_continue") -> None:
    page.click(f"[name={button}]")
    expect(page.locator(".messagelist .success")).to_be_visible()


@pytest.mark.parametrize(
    "path",
    [
        "",
        "password_change/",
        "auth/user/",
        "auth/user/add/",
        "auth/group/add/",
        "llmcore/",
        "llmcore/provider/",
        "llmcore/provider/add/",
        "llmcore/languagemodel/",
        "llmcore/languagemodel/add/",
        "llmcore/configuration/",
        "llmcore/configuration/add/",
        "llmcore/skill/",
        "llmcore/skill/add/",
        "llmcore/snippet/",
        "llmcore/snippet/add/",
        "llmcore/toolswitch/",
        "llmcore/usagerecord/",
    ],
)
def test_each_page_opens_without_a_complaint(page: Page, path: str) -> None:
    response = page.goto(f"/admin/{path}")
    assert response is not None and response.ok


def test_the_login_page_opens_without_a_complaint(page: Page) -> None:
    page.context.clear_cookies()
    page.goto("/admin/login/")
    expect(page.locator("#id_username")).to_be_focused()


def test_a_provider_is_set_up_and_its_key_is_seen_no_more(page: Page) -> None:
    page.goto("/admin/llmcore/provider/add/")
    page.locator("#id_name").press_sequentially("Browser Ltd")
    expect(page.locator("#id_slug")).to_have_value("browser-ltd")
    page.fill("#id_base_url", "https://llm.example.com/v1")
    page.fill("#id_api_key", KEY)
    save(page)
    expect(page.locator("#id_api_key")).to_have_attribute("placeholder", "A key is saved for llm.example.com")
    assert KEY not in page.content()

    page.fill("#id_base_url", "https://elsewhere.example.com/v1")
    page.click("[name=_continue]")
    expect(page.locator(".field-api_key .errorlist")).to_contain_text("never sent to another host")

    page.click("text=Delete")
    page.click("[type=submit] >> text=Yes")
    expect(page.locator(".messagelist .success")).to_be_visible()


def test_a_configuration_gets_skills_in_order_and_tools_by_ticks(page: Page) -> None:
    for name in ("First browser skill", "Second browser skill"):
        page.goto("/admin/llmcore/skill/add/")
        page.locator("#id_name").press_sequentially(name)
        page.fill("#id_body", "One line.\nAnother line.")
        save(page)
    page.goto("/admin/llmcore/configuration/add/")
    page.locator("#id_name").press_sequentially("Browser configuration")
    page.select_option("#id_model", index=1)
    for number, (name, place) in enumerate([("First browser skill", "2"), ("Second browser skill", "1")]):
        page.click("#configurationskill_set-group .add-row a")
        page.select_option(f"#id_configurationskill_set-{number}-skill", label=name)
        page.fill(f"#id_configurationskill_set-{number}-position", place)
    page.locator("[name=tool_groups]").first.check()
    save(page)

    chosen = [page.locator(f"#id_configurationskill_set-{number}-skill option:checked") for number in range(2)]
    expect(chosen[0]).to_have_text("Second browser skill")
    expect(chosen[1]).to_have_text("First browser skill")
    expect(page.locator("[name=tool_groups]").first).to_be_checked()
    expect(page.locator("[name=tools_0][value=all]")).to_be_checked()

    with page.expect_popup() as popup:
        page.click("#change_id_model")
    popup.value.click("[name=_save]")
    expect(page.locator("#id_model option:checked")).not_to_have_text("---------")

    page.click(".deletelink")
    page.click("[type=submit] >> text=Yes")
    expect(page.locator(".messagelist .success")).to_be_visible()


def test_a_tool_is_switched_off_and_on_again(page: Page) -> None:
    page.goto("/admin/llmcore/toolswitch/")
    box = page.locator("#tools_form tbody [type=checkbox]").first
    box.uncheck()
    page.click("#tools_form [type=submit]")
    expect(page.locator(".messagelist .success")).to_be_visible()
    expect(box).not_to_be_checked()
    box.check()
    page.click("#tools_form [type=submit]")
    expect(page.locator(".messagelist .success")).to_be_visible()
    expect(box).to_be_checked()


def test_the_pages_fit_a_phone(open_page: object) -> None:
    page: Page = open_page(width=390, height=800, color_scheme="dark")  # type: ignore[operator]
    for path in ("llmcore/toolswitch/", "llmcore/configuration/add/", "llmcore/provider/add/"):
        page.goto(f"/admin/{path}")
        wide = page.locator("body").evaluate("body => body.scrollWidth > window.innerWidth")
        assert not wide, path


def test_tools_of_an_mcp_server_are_listed_read_and_accepted(open_page: object) -> None:
    page: Page = open_page(width=390, height=800)  # type: ignore[operator]
    with serve_shop() as shop:
        page.goto("/admin/llmcore/mcpserver/add/")
        page.locator("#id_name").press_sequentially("Desk")
        page.fill("#id_base_url", shop.url)
        page.check("#id_allow_private_hosts")
        save(page, "_save")
        page.click("text=List tools")
        expect(page.locator(".messagelist .warning")).to_contain_text("7 of them are not accepted yet.")

        tool = page.locator(".mcp-tool", has_text="desk__find_order")
        expect(tool.locator(".mcp-description")).to_have_text("Find an order by its number.")
        tool.get_by_role("checkbox").check()
        tool.locator("summary").click()
        assert not page.locator("body").evaluate("body => body.scrollWidth > window.innerWidth")
        page.click("text=Accept the ticked tools")
        expect(page.locator(".mcp-accepted")).to_contain_text("desk__find_order")

    page.click(".deletelink")
    page.click("[type=submit] >> text=Yes")
    expect(page.locator(".messagelist .success")).to_be_visible()
