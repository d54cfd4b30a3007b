"""How soon a person sees what happens, in a real browser on the running product: `python -m bench.live [--servers]`.

Each run is started by a click on Run. Measured are the time from the click until its first step stands on the page of
the run, for every step the time from when the loop recorded it until it stands there, and the time from a click on
Cancel until the page says that the run has stopped. All are counted to the frame that the browser begins with it; the
painting of that frame has a line of its own for the first step. Beside them stands what the browser alone needs for a
click, a redirect and a page with nothing but one line. When a step was recorded is told by the run's start and the
step's own times, which lets it look some milliseconds too old: the figures are on the high side.

A client without a screen sends the same form, too, and reads the answer up to its first step: what the product itself
takes of the time where no browser takes the processors from it.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, Page, sync_playwright

from tests.e2e.conftest import CHROMIUM_ARGUMENTS
from tests.e2e.products import Product, embedded, servers
from tests.services import program

TITLE = "Double charge on order DJ-48213"
# Notes on every page when the mouse was pressed last, and when each step was first shown.
WATCH = """
const now = () => performance.timeOrigin + performance.now();
document.addEventListener("click", () => sessionStorage.setItem("clicked", now()), true);
window.shown = {};
new PerformanceObserver((list) => (window.painted ??= list.getEntries()[0].renderTime)).observe({ type: "element" });
const look = () => {
  for (const row of document.querySelectorAll(".pg-step[id]")) {
    const step = row.id.slice("step-".length);
    if (step in shown) continue;
    for (const text of [row, ...row.querySelectorAll("span, b")]) text.setAttribute("elementtiming", "step");
    requestAnimationFrame(() => (shown[step] ??= now()));
  }
};
new MutationObserver(look).observe(document, { childList: true, subtree: true });
"""
SEEN = """() => {
  const at = (time) => performance.timeOrigin + time;
  const clicked = Number(sessionStorage.getItem("clicked"));
  // Of the empty pages nothing is fetched.
  const [answer = {}] = performance.getEntriesByType("resource")
    .filter(({ name, startTime }) => new URL(name).pathname.endsWith("/new/") && at(startTime) >= clicked);
  return { clicked, shown, began: at(answer.responseStart), answered: at(answer.responseEnd), painted: at(painted) };
}"""
PAINTED = "() => window.shown && shown['1'] && window.painted"
ENDED = "() => !document.querySelector('#follow')"
STREAMING = "() => document.querySelector('[data-partial=text]')?.textContent.length > 20"
STOPPED = """() => document.querySelector('.pg-pill--cancelled')?.checkVisibility()
  && performance.timeOrigin + performance.now()"""
FORM = "() => new URLSearchParams(new FormData(document.querySelector('[data-run]').form)).toString()"
FIRST_STEP = 'id="step-1"'
# What happens between the click and the first step, in this order.
STAGES = {
    "began": "click to the beginning of the answer",
    "answered": "click to the page's text",
}


class Empty(BaseHTTPRequestHandler):
    """Two pages without anything: a button, and the line that it leads to."""

    protocol_version = "HTTP/1.1"
    page = "<!doctype html><title>Empty</title>"
    button = f"{page}<form method=post><button>Run</button></form>"
    line = f"{page}<p class=pg-step id=step-1>There</p>"

    def do_GET(self) -> None:
        self._answer(200, self.line if self.path == "/line" else self.button)

    def do_POST(self) -> None:
        self._answer(303, "", Location="/line")

    def log_message(self, *arguments: Any) -> None:
        pass

    def _answer(self, status: int, body: str, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "text/html", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())


@contextmanager
def empty_pages() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Empty)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def click_through(page: Page, url: str) -> tuple[float, float]:
    """Milliseconds from a click to the line on the next page, and until that is painted."""
    page.goto(url)
    page.get_by_role("button").click()
    page.wait_for_function(PAINTED)
    seen = page.evaluate(SEEN)
    return seen["shown"]["1"] - seen["clicked"], seen["painted"] - seen["clicked"]


def logged_in(browser: Browser, product: Product) -> Page:
    page = browser.new_context(viewport={"width": 1440, "height": 900}, base_url=product.url).new_page()
    page.goto("/admin/login/")
    page.fill("#id_username", product.username)
    page.fill("#id_password", product.password)
    page.click("[type=submit]")
    page.wait_for_selector("#user-tools")
    page.add_init_script(WATCH)
    return page


def demo_run(page: Page) -> int:
    """The demo run that is started again."""
    heading = f'<span class="pg-title__t">{TITLE}'
    return next(pk for pk in range(1, 20) if heading in page.request.get(f"/admin/playground/runs/{pk}/").text())


def start_and_watch(page: Page, pk: int) -> tuple[dict[str, float], list[float]]:
    """Milliseconds of what happens at the start of a run, and from each later step to the screen."""
    page.goto(f"/admin/playground/new/?from={pk}")
    page.wait_for_selector("[data-preview]:not([aria-busy=true])")
    page.locator("[data-run]").click()
    page.wait_for_url(re.compile(r"/runs/\d+/"))
    page.wait_for_function(ENDED)
    seen = page.evaluate(SEEN)
    number = int(page.url.split("/runs/")[1].split("/")[0])
    shown = {int(step): at for step, at in seen["shown"].items() if step.isdecimal()}
    run, recorded = recorded_steps(page, number)
    click = {name: seen[stage] - seen["clicked"] for stage, name in STAGES.items()}
    click["click to the first step's record"] = recorded[min(recorded)] - seen["clicked"]
    click["  of it in the queue"] = run["queue_ms"]
    click["click to the first step on the page"] = shown[min(recorded)] - seen["clicked"]
    click["  until it is painted"] = seen["painted"] - seen["clicked"]
    # A result stands in the line of its call, so it is the first step of each line that can be told.
    later = [shown[step] - at for step, at in recorded.items() if step in shown and step != min(recorded)]
    return click, later


def start_without_browser(page: Page, pk: int) -> float:
    """Milliseconds from sending the form to the first step in the text of the run's page."""
    page.goto(f"/admin/playground/new/?from={pk}")
    page.wait_for_selector("[data-preview]:not([aria-busy=true])")
    form, url = page.evaluate(FORM), page.url
    cookies = {cookie["name"]: cookie["value"] for cookie in page.context.cookies()}
    page.goto("about:blank")
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Referer": url, "HX-Request": "true"}
    with httpx.Client(cookies=cookies, timeout=30) as client:
        client.get(url)
        began = time.perf_counter()
        with client.stream("POST", url, content=form, headers=headers) as response:
            text = ""
            for piece in response.iter_text():
                text += piece
                if FIRST_STEP in text:
                    break
            took = (time.perf_counter() - began) * 1000
    run = response.headers["Location"]
    assert FIRST_STEP in text, f"the page of {run} came without a first step"
    page.goto(run)
    page.wait_for_function(ENDED)
    return took


def cancel_and_watch(page: Page, pk: int) -> float:
    """Milliseconds from a click on Cancel, while an answer streams in, until the page says that the run has stopped."""
    page.goto(f"/admin/playground/new/?from={pk}")
    page.wait_for_selector("[data-preview]:not([aria-busy=true])")
    page.locator("[data-run]").click()
    page.wait_for_url(re.compile(r"/runs/\d+/"))
    page.wait_for_function(STREAMING)
    page.get_by_role("button", name="Cancel").click()
    stopped: float = page.wait_for_function(STOPPED).json_value()
    return stopped - page.evaluate("Number(sessionStorage.getItem('clicked'))")


def recorded_steps(page: Page, number: int) -> tuple[dict[str, Any], dict[int, float]]:
    """The run, and when each step of it was recorded, in milliseconds of the clock that the browser has, too."""
    export: dict[str, Any] = page.request.get(f"/admin/playground/runs/{number}/export/").json()
    started = datetime.fromisoformat(export["run"]["started_at"]).timestamp() * 1000
    return export["run"], {
        step["sequence"]: started + step["started_ms"] + step["duration_ms"] for step in export["steps"]
    }


def print_row(name: str, values: Sequence[float]) -> None:
    ordered = sorted(values)
    p90 = ordered[int(len(ordered) * 0.9)] if len(ordered) > 1 else ordered[0]
    print(f"{name:36}{statistics.median(values):8.0f}{ordered[0]:8.0f}{p90:8.0f}{len(values):6}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--servers", action="store_true", help="on PostgreSQL and Redis, with two workers")
    options = parser.parse_args()
    start = servers if options.servers else embedded
    clicks: list[dict[str, float]] = []
    laters: list[float] = []
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        start(Path(folder)) as product,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=program("chromium"), args=CHROMIUM_ARGUMENTS)
        page = logged_in(browser, product)
        pk = demo_run(page)
        start_and_watch(page, pk)
        for _ in range(options.runs):
            click, later = start_and_watch(page, pk)
            clicks.append(click)
            laters += later
        stops = [cancel_and_watch(page, pk) for _ in range(max(1, options.runs // 2))]
        unseen = [start_without_browser(page, pk) for _ in range(options.runs)]
        bare = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        bare.add_init_script(WATCH)
        with empty_pages() as url:
            floor = [click_through(bare, url) for _ in range(options.runs)]
        browser.close()
    print(f"Milliseconds, {'PostgreSQL and Redis' if options.servers else 'embedded'}; load {os.getloadavg()[0]:.1f}")
    print(f"{'':36}{'median':>8}{'least':>8}{'p90':>8}{'n':>6}")
    for name in clicks[0]:
        print_row(name, [click[name] for click in clicks])
    print_row("the same with two empty pages", [shown for shown, _painted in floor])
    print_row("  until it is painted", [painted for _shown, painted in floor])
    print_row("the same without a browser", unseen)
    print_row("recorded step to the screen", laters)
    print_row("click on Cancel to the stopped run", stops)


if __name__ == "__main__":
    main()
