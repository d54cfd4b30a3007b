"""The servers that tests talk to, started on free ports of this machine and stopped afterwards."""

from __future__ import annotations

import glob
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

PACKAGES = {"chromium": "chromium", "redis-server": "redis-server", "initdb": "postgresql"}


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


def stop(process: subprocess.Popen[bytes], timeout_s: float = 20) -> None:
    process.terminate()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def redis_server() -> Iterator[str]:
    """A Redis of its own, without persistence; yields its URL."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:
        arguments = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder]
        process = subprocess.Popen([program("redis-server"), *arguments], stdout=subprocess.DEVNULL)
        try:
            wait_for_port(port, process)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            stop(process)


@contextmanager
def postgres_server() -> Iterator[str]:
    """A PostgreSQL cluster of its own, without fsync; yields the URL of an empty database."""
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    data = folder / "data"
    data.mkdir()
    # PostgreSQL refuses to run as root.
    as_owner: Sequence[str] = ()
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
        shutil.chown(data, "postgres")
        as_owner = ("runuser", "-u", "postgres", "--")
    data.chmod(0o700)
    try:
        subprocess.run(
            [*as_owner, program("initdb"), "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync"],
            check=True,
            capture_output=True,
            cwd=folder,
        )
        settings = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": folder, "fsync": "off"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen(
                [*as_owner, program("postgres"), "-D", data, *options], stdout=log, stderr=log, cwd=folder
            )
        try:
            wait_for_port(port, process)
            yield f"postgres://postgres@127.0.0.1:{port}/postgres"
        finally:
            stop(process)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
