"""The product as one process tree, started and stopped for real."""

from __future__ import annotations

import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.playground.driven import wait_for
from tests.services import free_port

pytestmark = pytest.mark.embedded

ROOT = Path(__file__).resolve().parent.parent.parent
START_S = 240.0
READY = r"Ready: (http://\S+?)/ "
RUNS = "SELECT status FROM playground_run ORDER BY id"


@dataclass
class Product:
    """A started process tree and what it printed so far."""

    process: subprocess.Popen[bytes]
    data_dir: Path
    log: Path
    children: list[int] = field(default_factory=list)

    @property
    def output(self) -> str:
        return self.log.read_text()

    def wait_until_ready(self) -> str:
        wait_for(lambda: re.search(READY, self.output) or self.process.poll() is not None, "the product", START_S)
        found = re.search(READY, self.output)
        assert found, self.output
        self.children = children_of(self.process.pid)
        return found.group(1)

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)

    def rows(self, query: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.data_dir / "db.sqlite3")) as database:
            return database.execute(query).fetchall()


def children_of(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(line) for line in found.stdout.split()]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@contextmanager
def started(data_dir: Path, *, port: int, log: str = "first") -> Iterator[Product]:
    environment = {**os.environ, "DATA_DIR": str(data_dir)}
    for name in ("DATABASE_URL", "REDIS_URL"):
        environment.pop(name, None)
    path = data_dir.parent / log
    with path.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "embedded", "--port", str(port), "--model-port", str(free_port())],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    product = Product(process, data_dir, path)
    try:
        yield product
    finally:
        for pid in [*children_of(process.pid), *product.children]:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        if process.poll() is None:
            process.kill()
        process.wait()


@dataclass(frozen=True)
class Visit:
    """What was seen of a product between its start and its end."""

    data_dir: Path
    port: int
    output: str
    runs: list[tuple[object, ...]]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Visit:
    """The first start of an installation; what comes later starts from what it left."""
    data_dir, port = tmp_path_factory.mktemp("installed") / "data", free_port()
    with started(data_dir, port=port) as product:
        url = product.wait_until_ready()
        assert url == f"http://127.0.0.1:{port}"
        with urllib.request.urlopen(f"{url}/admin/login/") as page:
            assert b"id_password" in page.read()
        assert len(product.children) == 3
        runs = product.rows(RUNS)
        assert product.stop(signal.SIGINT) == 0
        assert not any(map(alive, product.children))
        return Visit(data_dir, port, product.output, runs)


def test_the_first_start_shows_runs(first: Visit) -> None:  # D5
    statuses = {status for (status,) in first.runs}
    assert len(first.runs) >= 5 and {"queued", "running"}.isdisjoint(statuses)
    assert {"completed", "failed", "dry_run"} <= statuses
    assert len(re.findall(r"Log in as admin, password \w{16} ", first.output)) == 1
    assert {log.name for log in (first.data_dir / "logs").iterdir()} == {"model.log", "web.log", "worker.log"}


def test_the_second_start_keeps_them(first: Visit) -> None:  # D5
    with started(first.data_dir, port=first.port) as product:
        product.wait_until_ready()
        assert "Log in as" not in product.output and "demo runs" not in product.output
        assert product.rows(RUNS) == first.runs
        assert product.rows("SELECT count(*) FROM auth_user") == [(1,)]

        with started(first.data_dir, port=free_port(), log="second") as second:
            assert second.process.wait(START_S) == 1
            assert "already running" in second.output

        # Even where it can't stop its children itself, none of them stays.
        product.process.kill()
        wait_for(lambda: not any(map(alive, product.children)), "the children to end")


def test_a_taken_port_and_a_child_that_dies(first: Visit) -> None:  # D5
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with started(first.data_dir, port=port) as product:
            url = product.wait_until_ready()
            assert not url.endswith(f":{port}") and f"port {port} is taken" in product.output
            (worker,) = [pid for pid in product.children if b"celery" in Path(f"/proc/{pid}/cmdline").read_bytes()]
            os.kill(worker, signal.SIGKILL)
            assert product.process.wait(60) == 1
            assert "The worker process has ended by itself (code -9)" in product.output
            assert not any(map(alive, product.children))
