"""Takes the README's pictures of a running product: `python docs/take_pictures.py URL USER PASSWORD`.

The product needs its demo runs, this script requirements-dev.txt and Chromium.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, sync_playwright

IMAGES = Path(__file__).resolve().parent / "images"
RUN = "Double charge on order DJ-48213"
SNIPPET = "formal-german"
WIDTH = 1440
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Where Django's admin keeps whether its sidebar is open.
COLLAPSE_SIDEBAR = "localStorage.setItem('django.admin.navSidebarIsOpen', 'false')"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="where the product is, for example http://127.0.0.1:8000")
    parser.add_argument("user", help="name of a superuser")
    parser.add_argument("password")
    options = parser.parse_args()
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        sys.exit("There is no Chromium on the PATH.")
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_ARGUMENTS)
        context = browser.new_context(
            base_url=options.url.rstrip("/"), color_scheme="light", locale="en-US", reduced_motion="reduce"
        )
        context.add_init_script(COLLAPSE_SIDEBAR)
        page = log_in(context, options.user, options.password)
        number = open_run(page)
        page.wait_for_selector("#step-detail:not(:has([data-loading]))")
        take(page, "run.png", height=1240)
        page.goto(f"/admin/playground/new/?from={number}")
        page.wait_for_selector("#preview")
        take(page, "new-run.png", height=1040)
        changed = run_again(page)
        page.goto(f"/admin/playground/compare/?a={number}&b={changed}")
        take(page, "compare.png", height=1240)
        browser.close()


def log_in(context: BrowserContext, user: str, password: str) -> Page:
    page = context.new_page()
    page.goto("/admin/login/")
    page.fill("#id_username", user)
    page.fill("#id_password", password)
    page.click("[type=submit]")
    page.wait_for_load_state()
    if page.locator("#user-tools").count() == 0:
        sys.exit(f"{user} can't log in with this password.")
    return page


def open_run(page: Page) -> str:
    """Open the newest run of the title `RUN` that is in the list, and return its number."""
    page.goto("/admin/playground/")
    link = page.get_by_role("link", name=RUN, exact=True)
    if link.count() == 0:
        sys.exit(f"The first page of the list has no run “{RUN}”: start the product on an empty data directory.")
    link.first.click()
    page.wait_for_url("**/runs/*/")
    return page.url.rstrip("/").rsplit("/", 1)[-1]


def run_again(page: Page) -> str:
    """Run what is in the form with one more snippet, and return the number of that run."""
    page.locator(f"[name=snippets][value={SNIPPET}]").check()
    page.locator("[data-run]").click()
    page.wait_for_url("**/runs/*/")
    number = page.url.rstrip("/").rsplit("/", 1)[-1]
    page.wait_for_selector("#run-head .pg-pill--done", timeout=90_000)
    return number


def take(page: Page, name: str, *, height: int) -> None:
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.wait_for_load_state("networkidle")
    # A pointer that rests on a row would mark it.
    page.mouse.move(0, 0)
    page.screenshot(path=IMAGES / name, animations="disabled", caret="hide")
    print(f"{IMAGES / name}: {(IMAGES / name).stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
