"""The product as people start it: with one command, or as the services of production."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from tests.installation import ROOT, Installation
from tests.services import free_port

ADMIN = "admin"
PASSWORD = "correct horse battery"
# How the demo runs are told from those that still go on.
UNDER_WAY = "SELECT count(*) FROM playground_run WHERE status IN ('queued', 'running')"


@dataclass(frozen=True)
class Product:
    """The running product: where it is, who may log in, and the environment that its own commands need."""

    url: str
    username: str
    password: str
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, module: str, *arguments: object) -> str:
        """What a module of the tests prints that works on the product's own data, for the user who may log in."""
        return subprocess.run(
            [sys.executable, "-m", module, self.username, *map(str, arguments)],
            cwd=ROOT,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=True,
        ).stdout


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


@contextmanager
def embedded(folder: Path) -> Iterator[Product]:
    """One process tree, with SQLite and a queue of files."""
    environment = {**os.environ, "DATA_DIR": str(folder), "PYTHONUNBUFFERED": "1"}
    for name in ("DATABASE_URL", "REDIS_URL"):
        environment.pop(name, None)
    process = subprocess.Popen(
        [sys.executable, "manage.py", "embedded", "--port", str(free_port()), "--model-port", str(free_port())],
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
        yield Product(url=url, username=ADMIN, password=password, environment={"DATA_DIR": str(folder)})
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def servers(folder: Path) -> Iterator[Product]:
    """The services of docker-compose.yml with the demo: PostgreSQL, Redis, a web server, two workers. No TLS here."""
    files = {"root": str(folder / "files"), "write": True, "write_freely": ["notes/**"], "terminal": True}
    installation = Installation(folder, HTTPS="off", LLM_WORKSPACES=json.dumps({"shop": files}))
    try:
        installation.collect_static()
        installation.up("web", "worker", "demo-model")
        account = ["--username", ADMIN, "--email", "admin@example.com"]
        installation.manage("createsuperuser", "--noinput", *account, DJANGO_SUPERUSER_PASSWORD=PASSWORD)
        installation.run("demo", "--run-as", ADMIN)
        with psycopg.connect(installation.postgres.url, autocommit=True) as connection:
            installation.wait(lambda: connection.execute(UNDER_WAY).fetchone() == (0,), "the demo runs to end")
        yield Product(url=installation.url, username=ADMIN, password=PASSWORD)
    finally:
        installation.down()


PRODUCTS = {"embedded": embedded, "servers": servers}
