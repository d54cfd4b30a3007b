"""The product as a new user starts it, and a real browser that complains about every console error."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.services import free_port, program

ROOT = Path(__file__).resolve().parent.parent.parent
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass(frozen=True)
class Product:
    """The running product: where it is and who may log in."""

    url: str
    username: str
    password: str
    data_dir: Path


class Output:
    """The lines that a process prints, read as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[str] = []
        self._process = process
        self._changed = threading.Condition()
        self._ended = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self.lines.append(line.rstrip())
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_for(self, pattern: str, timeout_s: float = 120) -> re.Match[str]:
        with self._changed:

            def search() -> re.Match[str] | None:
                return next((found for line in self.lines if (found := re.search(pattern, line))), None)

            self._changed.wait_for(lambda: search() or self._ended, timeout_s)
            found = search()
        if found is None:
            raise AssertionError(f"never printed {pattern!r}:\n" + "\n".join(self.lines))
        return found


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """One started product for all browser tests, demo runs included."""
    data_dir = tmp_path_factory.mktemp("data")
    port = free_port()
    environment = {**os.environ, "DATA_DIR": str(data_dir), "PYTHONUNBUFFERED": "1"}
    for name in ("DATABASE_URL", "REDIS_URL"):
        environment.pop(name, None)
    process = subprocess.Popen(
        [sys.executable, "manage.py", "embedded", "--port", str(port)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output = Output(process)
        password = output.wait_for(r"(?i)password\W+(\S+)").group(1)
        url = output.wait_for(r"(?i)ready\b.*?(http://[\w.:]+)").group(1)
        yield Product(url=url, username="admin", password=password, data_dir=data_dir)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


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
        context.set_default_timeout(15_000)
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
