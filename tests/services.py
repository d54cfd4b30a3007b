"""The servers that tests talk to, started on free ports of this machine and stopped afterwards."""

from __future__ import annotations

import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Where files live in memory, and how much a database server may need of it: some containers have next to nothing.
MEMORY = Path("/dev/shm")
MEMORY_BYTES = 1 << 30
PACKAGES = {"chromium": "chromium", "curl": "curl", "redis-server": "redis-server", "initdb": "postgresql"}


def program(name: str) -> str | None:
    """Where a program is, PostgreSQL's own ones included, which Debian keeps off the PATH."""
    if found := shutil.which(name):
        return found
    return max(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), default=None)


def missing_packages() -> list[str]:
    """The Debian packages that have to be installed before the tests can run."""
    return [package for name, package in PACKAGES.items() if program(name) is None]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_for_port(port: int, process: subprocess.Popen[bytes], timeout_s: float = 30) -> None:
    """Return when something accepts connections on `port`; fail at once when `process` ends first."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode} before it answered")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError(f"{process.args!r} did not answer on port {port} within {timeout_s:.0f} s")


def stop(process: subprocess.Popen[bytes], timeout_s: float = 20, number: signal.Signals = signal.SIGTERM) -> bool:
    """Whether the process ended when it was asked; otherwise it was killed."""
    process.send_signal(number)
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    return True


def quick_folder() -> str | None:
    """A folder in memory, where emptying all tables of PostgreSQL takes a sixth of the time; `None` where it has too
    little room."""
    return str(MEMORY) if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES else None


class Server(ABC):
    """A server on a port of its own that can be stopped and started again, with what it had stored or without."""

    def __init__(self) -> None:
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def start(self) -> None: ...

    def stop(self) -> None:
        if self.process is not None:
            stop(self.process)
            self.process = None


class Redis(Server):
    """A Redis without persistence: it forgets everything when it stops."""

    def start(self) -> None:
        arguments = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen(
            [program("redis-server"), *arguments], stdout=subprocess.DEVNULL, cwd=tempfile.gettempdir()
        )
        wait_for_port(self.port, self.process)


class PostgreSQL(Server):
    """A PostgreSQL cluster without fsync, for one role that logs in with its password over TCP."""

    def __init__(self, *, user: str = "postgres", password: str = "postgres", database: str = "postgres") -> None:
        super().__init__()
        self._user, self._password, self._database = user, password, database
        # PostgreSQL refuses to run as root.
        self._owner = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
        self._folder = Path(tempfile.mkdtemp(prefix="postgres-", dir=quick_folder()))
        self._data = self._folder / "data"

    @property
    def created(self) -> bool:
        return self._data.exists()

    @property
    def url(self) -> str:
        return f"postgres://{self._user}:{self._password}@127.0.0.1:{self.port}/{self._database}"

    def create(self) -> None:
        password_file = self._folder / "password"
        password_file.write_text(self._password)
        if self._owner:
            shutil.chown(self._folder, "postgres")
            shutil.chown(password_file, "postgres")
        arguments = ["-U", self._user, "--pwfile", password_file, "-A", "scram-sha-256", "-E", "UTF8", "--no-sync"]
        subprocess.run(
            [program("initdb"), "-D", self._data, *arguments],
            check=True,
            capture_output=True,
            cwd=self._folder,
            **self._owner,
        )
        self.start()
        if self._database != "postgres":
            arguments = ["-h", "127.0.0.1", "-p", str(self.port), "-U", self._user, self._database]
            environment = {**os.environ, "PGPASSWORD": self._password}
            subprocess.run([program("createdb"), *arguments], check=True, env=environment)

    def start(self) -> None:
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self._folder,
            "fsync": "off",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with open(self._folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [program("postgres"), "-D", self._data, *options],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                **self._owner,
            )
        wait_for_port(self.port, self.process)
        # It listens before it lets anybody in.
        ready = [program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port), "-t", "30"]
        while subprocess.run(ready).returncode:
            if self.process.poll() is not None:
                raise RuntimeError((self._folder / "log").read_text())
            time.sleep(0.05)

    def stop(self) -> None:
        """Without waiting for its clients, which is what its own SIGTERM would do."""
        if self.process is not None:
            stop(self.process, number=signal.SIGINT)
            self.process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def redis_server() -> Iterator[str]:
    """A Redis of its own; yields its URL."""
    server = Redis()
    server.start()
    try:
        yield f"redis://127.0.0.1:{server.port}/0"
    finally:
        server.stop()


@contextmanager
def postgres_server() -> Iterator[str]:
    """A PostgreSQL of its own; yields the URL of an empty database."""
    server = PostgreSQL()
    try:
        server.create()
        yield server.url
    finally:
        server.remove()
