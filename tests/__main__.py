"""Runs everything: `python -m tests`. Installs the system packages it needs (as root), starts and stops servers."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import IO

from tests.services import missing_packages, postgres_server

LINT: dict[str, list[str]] = {
    "Style": ["ruff", "check", "."],
    "Format": ["ruff", "format", "--check", "."],
    "Types": ["mypy"],
    "Migrations": ["manage.py", "makemigrations", "--check", "--dry-run"],
}
# What has to do with a database, and what a browser shows of servers. How pages look doesn't depend on either.
# What starts processes of its own does so on PostgreSQL in the tests of the services.
DATABASE_TESTS = [
    *("tests/config", "tests/llmcore", "tests/playground", "tests/security"),
    *("--ignore=tests/playground/test_worker.py", "--ignore=tests/playground/test_llm_run.py"),
]
BROWSER_TESTS_ON_SERVERS = ["tests/e2e/test_main_job.py", "tests/e2e/test_history.py"]
ACCESSIBILITY = "tests/e2e/test_accessibility.py"
# Tests wait more than they compute.
SUITES_AT_A_TIME = 3
IN_PARALLEL = ["--ignore=tests/e2e", "--ignore=tests/servers", "-n", "2", "--dist", "loadfile"]


@dataclass(frozen=True)
class Suite:
    """Tests that run in one process, or in one group of them, of their own."""

    name: str
    arguments: list[str]
    variables: Mapping[str, str] = field(default_factory=dict)


REAL_MODEL = Suite("Tests with a real model", ["tests/real_model"])


def suites(database_url: str) -> list[Suite]:
    """Longest first. Browser tests run apart: their event loop would be in the way of the asynchronous tests."""
    on_servers = {"PRODUCT": "servers"}
    on_postgres = {"DATABASE_URL": database_url}
    return [
        Suite("Tests on SQLite", ["tests", *IN_PARALLEL]),
        Suite("Browser tests", ["tests/e2e", f"--ignore={ACCESSIBILITY}"]),
        Suite("Browser tests of accessibility", [ACCESSIBILITY]),
        Suite("Tests on PostgreSQL", [*DATABASE_TESTS, *IN_PARALLEL, "-m", "django_db and not embedded"], on_postgres),
        Suite("Tests of the services of production", ["tests/servers"]),
        Suite("Browser tests on the services of production", BROWSER_TESTS_ON_SERVERS, on_servers),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests", description=__doc__)
    parser.add_argument("--lint-only", action="store_true", help="only style, types and migrations")
    parser.add_argument("--real-model", action="store_true", help="only the tests that need the local model")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="playground-tests-") as folder:
        environment = {**os.environ, "DATA_DIR": folder}
        # The tests start many processes; without bytecode each would compile the whole site again.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        if options.real_model:
            return 0 if run(REAL_MODEL.name, pytest(REAL_MODEL), environment) else 1
        failed = [name for name, command in LINT.items() if not run(name, tool(command), environment)]
        if not options.lint_only:
            install_packages()
            with postgres_server() as url:
                failed += run_side_by_side(suites(url), environment)
    print(f"\nFailed: {', '.join(failed)}" if failed else "\nAll green.", flush=True)
    return 1 if failed else 0


def tool(command: list[str]) -> list[str]:
    if command[0] == "manage.py":
        return [sys.executable, *command]
    return [sys.executable, "-m", *command]


def pytest(suite: Suite) -> list[str]:
    return [sys.executable, "-m", "pytest", *suite.arguments]


def run(name: str, command: list[str], environment: dict[str, str], output: IO[bytes] | None = None) -> bool:
    """Whether the command succeeded. It prints to the terminal, or, where `output` is given, as a whole when done."""
    print(f"\n=== {name} ...", flush=True)
    started = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT if output else None)
    # Suites run side by side: what one takes of the processors tells where there is something to save.
    _pid, status, used = os.wait4(process.pid, 0)
    code = process.returncode = os.waitstatus_to_exitcode(status)
    said = "ok" if code == 0 else f"failed ({code})"
    printed = ""
    if output:
        output.seek(0)
        printed = output.read().decode(errors="replace") + "\n"
    took, busy = time.monotonic() - started, used.ru_utime + used.ru_stime
    print(f"{printed}=== {name}: {said} in {took:.0f} s, {busy:.0f} s of a processor", flush=True)
    return code == 0


def run_side_by_side(suites: list[Suite], environment: dict[str, str]) -> list[str]:
    """The names of those that failed."""

    def succeeds(suite: Suite) -> bool:
        # Each has data of its own.
        with tempfile.TemporaryFile() as output, tempfile.TemporaryDirectory(dir=environment["DATA_DIR"]) as folder:
            return run(suite.name, pytest(suite), {**environment, **suite.variables, "DATA_DIR": folder}, output)

    with ThreadPoolExecutor(SUITES_AT_A_TIME) as pool:
        return [suite.name for suite, ok in zip(suites, pool.map(succeeds, suites), strict=True) if not ok]


def install_packages() -> None:
    """Bring in the browser and the servers as root; without that right, say the one command and stop."""
    packages = missing_packages()
    if not packages:
        return
    command = "apt-get update && apt-get install -y --no-install-recommends " + " ".join(packages)
    if os.geteuid() != 0:
        sys.exit(f"The tests need these system packages. Install them with:\n\n    sudo sh -c '{command}'\n")
    print(f"Installing {', '.join(packages)} ...", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    result = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True)
    if result.returncode or missing_packages():
        sys.exit(f"Installing {', '.join(packages)} failed:\n{result.stdout[-2000:]}{result.stderr[-2000:]}")


if __name__ == "__main__":
    sys.exit(main())
