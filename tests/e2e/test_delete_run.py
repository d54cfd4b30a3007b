"""Deleting a run in a browser, with a page that asks first."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect


def test_a_run_is_deleted_once_its_reader_is_sure(open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto("/admin/playground/new/")
    page.fill("#id_prompt", "To be deleted soon")
    page.get_by_role("button", name="Dry run").click()
    page.wait_for_url(re.compile(r"/runs/\d+/"))
    address = page.url.partition("#")[0]
    delete = page.get_by_role("link", name="Delete")
    expect(delete).to_be_visible()

    delete.click()
    page.get_by_role("link", name="Keep it").click()
    expect(page).to_have_url(re.compile(f"^{re.escape(address)}(#|$)"))
    expect(page.locator("#step-detail [role=tab]").first).to_be_visible()
    delete.click()
    page.get_by_role("button", name="Delete for good").click()

    expect(page).to_have_url(re.compile(r"/admin/playground/$"))
    expect(page.locator(".messagelist")).to_contain_text("“To be deleted soon”, was deleted")
    assert page.request.get(address).status == 404
