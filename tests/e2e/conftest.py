"""The product as a new user starts it, and a real browser that complains about every console error."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.e2e.products import PRODUCTS, Product
from tests.services import program

CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Other tests run beside these: what comes late still comes.
PATIENCE_MS = 30_000
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """One started product for all browser tests, demo runs included; the variable PRODUCT says which one."""
    start = PRODUCTS[os.environ.get("PRODUCT", "embedded")]
    with start(tmp_path_factory.mktemp("product")) as started:
        yield started


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program("chromium"), args=CHROMIUM_ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def login_state(product: Product, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The session of the admin, logged in through the login page once."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{product.url}/admin/login/")
    page.fill("#id_username", product.username)
    page.fill("#id_password", product.password)
    page.click("[type=submit]")
    page.wait_for_selector("#user-tools")
    path = tmp_path_factory.mktemp("login") / "state.json"
    context.storage_state(path=path)
    context.close()
    return path


@pytest.fixture(scope="module")
def recorded(product: Product) -> Iterator[dict[str, int]]:
    """A run in every state, by the state. Other tests don't expect runs that go on forever."""

    runs = dict(json.loads(product.run("tests.e2e.recorded_states")))
    yield runs
    product.run("tests.e2e.recorded_states", *runs.values())


@pytest.fixture
def open_page(browser: Browser, login_state: Path, product: Product) -> Iterator[Callable[..., Page]]:
    """Opens logged-in pages of any size and theme: `open_page(width=390, color_scheme="dark")`.

    At the end of the test every one of them must have been free of console errors, failed scripts and refusals by the
    content policy.
    """
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def open_one(*, width: int = 1440, height: int = 900, expect_errors: bool = False, **options: object) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height}, storage_state=login_state, base_url=product.url, **options
        )
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        if not expect_errors:
            page.on("console", lambda m: complaints.append(f"console: {m.text}") if m.type == "error" else None)
            page.on("pageerror", lambda error: complaints.append(f"script: {error}"))
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert not complaints, "\n".join(complaints)


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    """A logged-in page, 1440 pixels wide."""
    return open_page()
