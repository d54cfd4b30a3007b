"""The form of a structured completion in a browser: files that are dropped, chosen and taken back."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.products import Product
from tests.llmcore.prompt_packs import PNG

FORM = "/admin/playground/structured/?prompt=tabletop.scene_descriptions"
DROP = """([input, name, text]) => {
    const files = new DataTransfer();
    files.items.add(new File([text], name, { type: "text/plain" }));
    const event = new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true });
    document.querySelector(input).closest("[data-drop]").dispatchEvent(event);
}"""


@pytest.fixture
def form(page: Page) -> Page:
    page.goto(FORM)
    return page


def test_a_dropped_file_is_told_from_the_text_and_taken_back(form: Page) -> None:
    transcript = form.locator("[data-drop]:has(#id_file-transcript)")
    form.fill("#id_input-transcript", "[1] GM: Rain.")
    form.evaluate(DROP, ["#id_file-transcript", "session.txt", "[1] GM: Snow."])
    expect(transcript.get_by_role("status")).to_have_text("There is a text as well: clear it, or remove the file.")

    # By keyboard alone.
    form.locator("#id_file-transcript").press("Tab")
    expect(transcript.get_by_role("button", name="Remove")).to_be_focused()
    form.keyboard.press("Enter")
    expect(transcript.get_by_role("status")).to_be_empty()
    expect(form.locator("#id_file-transcript")).to_be_focused()

    form.evaluate(DROP, ["#id_file-picture", "huge.png", "x" * 2_000_001])
    picture = form.locator("[data-drop]:has(#id_file-picture)")
    expect(picture.get_by_role("status")).to_have_text("This file is too large to be sent.")


def test_files_are_sent_without_any_script(product: Product, browser: Browser, login_state: str) -> None:
    context = browser.new_context(base_url=product.url, storage_state=login_state, java_script_enabled=False)
    page = context.new_page()
    page.goto(FORM)
    page.set_input_files("#id_file-picture", {"name": "map.png", "mimeType": "image/png", "buffer": PNG})
    transcript = {"name": "session.txt", "mimeType": "text/plain", "buffer": b"[1] GM: Rain."}
    page.set_input_files("#id_file-transcript", transcript)
    page.fill("#id_repairs", "9")
    page.get_by_role("button", name="Dry run").click()

    expect(page.locator("#id_input-transcript")).to_have_value("[1] GM: Rain.")
    expect(page.get_by_text("The text is from “session.txt”.")).to_be_visible()
    expect(page.get_by_text("Choose “map.png” again")).to_be_visible()
    context.close()
