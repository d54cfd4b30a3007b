"""What the page of a run costs, however long the run and however large what was said: `python -m bench.pages`.

Runs are driven as a worker drives them, against a model server on loopback, into a SQLite file; a web server of its own
serves them to Chromium. Needs what the tests need (`requirements-dev.txt` and Chromium).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bench import site
from bench.loop import model_server
from tests.services import free_port, program

SIZES = (50, 200, 1000)
RESULT_CHARS = 1_000
HUGE_RESULT = json.dumps([{"number": number, "text": "lorem ipsum dolor " * 4} for number in range(90_000)])
HUGE_PROMPT = "word " * 400_000
COLUMNS = {
    "page_ms": "page, server ms",
    "page_kb": "page kB",
    "part_ms": "part, server ms",
    "step_ms": "step, server ms",
    "step_kb": "step kB",
    "search_ms": "search ms",
    "visible_ms": "visible ms",
    "heap_mb": "JS heap MB",
    "nodes": "DOM nodes",
}


def lookup(key: str) -> str:
    return HUGE_RESULT if present["huge"] else f"{key}: ".ljust(RESULT_CHARS, ".")


present = {"huge": False}


def recorded_runs(sizes: list[int]) -> dict[str, tuple[Any, int]]:
    """The runs to look at by name, each with the step to open."""
    runs = {f"{size:,} rounds": (driven("", rounds=size), 2 * size) for size in sizes}
    present["huge"] = True
    runs[f"{len(HUGE_RESULT) / 1e6:.0f} MB result"] = (driven("", rounds=2), 3)
    present["huge"] = False
    runs[f"{len(HUGE_PROMPT) / 1e6:.0f} MB prompt"] = (driven(HUGE_PROMPT, rounds=2), 1)
    return runs


def driven(prompt: str, *, rounds: int) -> Any:
    run = site.new_run(prompt=f"rounds={rounds} latency=0 {prompt}", rounds=rounds)
    site.drive(run)
    return run


@contextmanager
def web_server(folder: str) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "config.asgi:application", "--port", str(port), "--log-level", "error"]
    process = subprocess.Popen(command, env={**os.environ, "DATA_DIR": folder, "DEBUG": "1"})
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(200):
            try:
                urllib.request.urlopen(f"{address}/healthz")
                break
            except OSError:
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()


def measure_server(run: Any, step: int) -> dict[str, float]:
    """CPU time, so that other work on the machine doesn't count."""
    from django.test import Client

    client = Client(headers={"host": "localhost"})
    client.force_login(run.user)
    path = f"/admin/playground/runs/{run.pk}/"
    page_ms, page = cpu_ms(lambda: client.get(path).content)
    part_ms, _ = cpu_ms(lambda: client.get(f"{path}steps/?at={step}").content)
    step_ms, detail = cpu_ms(lambda: client.get(f"{path}steps/{step}/").content)
    search_ms, _ = cpu_ms(lambda: client.get(f"{path}search/?q=nobody+said+this").content)
    return {
        "page_ms": page_ms,
        "page_kb": len(page) / 1000,
        "part_ms": part_ms,
        "step_ms": step_ms,
        "step_kb": len(detail) / 1000,
        "search_ms": search_ms,
    }


def cpu_ms(get: Callable[[], bytes]) -> tuple[float, bytes]:
    started = time.process_time()
    content = get()
    return (time.process_time() - started) * 1000, content


def measure_browser(page: Any, address: str, step: int) -> dict[str, float]:
    """From the click on a link to a step until the step is there, in the list and beside it."""
    page.goto("about:blank")
    started = time.perf_counter()
    page.goto(f"{address}#step-{step}", wait_until="commit")
    page.wait_for_selector("#step-detail[data-step] [role=tabpanel]")
    page.wait_for_selector("#step-tree .pg-step[aria-selected=true]")
    visible_ms = (time.perf_counter() - started) * 1000
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    counted = session.send("Memory.getDOMCounters")
    heap = session.send("Runtime.getHeapUsage")
    session.detach()
    return {"visible_ms": visible_ms, "heap_mb": heap["usedSize"] / 1e6, "nodes": counted["nodes"]}


def measure(folder: str, runs: dict[str, tuple[Any, int]], repeats: int) -> dict[str, dict[str, float]]:
    from playwright.sync_api import sync_playwright

    served = {name: [measure_server(run, step) for _ in range(repeats + 1)][1:] for name, (run, step) in runs.items()}
    session = session_of(next(iter(runs.values()))[0].user)
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
    with web_server(folder) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program("chromium"), args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        context.add_cookies([{"name": "sessionid", "value": session, "url": url}])
        page = context.new_page()
        for number in range(repeats + 1):
            for name, (run, step) in runs.items():
                figures = measure_browser(page, f"{url}/admin/playground/runs/{run.pk}/", step)
                # The first look fills caches.
                seen[name] += [figures] if number else []
        browser.close()
    return {name: {**median_of(served[name]), **median_of(seen[name])} for name in runs}


def session_of(user: Any) -> str:
    from django.test import Client

    client = Client()
    client.force_login(user)
    return str(client.cookies["sessionid"].value)


def median_of(figures: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(each[name] for each in figures) for name in figures[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="ROUNDS")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, model_server() as port:
        site.open_site(folder, model_url=f"http://127.0.0.1:{port}/v1", lookup=lookup)
        table = measure(folder, recorded_runs(list(options.sizes)), options.repeats)
    print("| Run | " + " | ".join(COLUMNS.values()) + " |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    for name, row in table.items():
        print(f"| {name} | " + " | ".join(f"{row[column]:,.0f}" for column in COLUMNS) + " |")


if __name__ == "__main__":
    main()
