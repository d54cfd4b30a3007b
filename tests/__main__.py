"""Runs everything: `python -m tests`. Installs the system packages it needs (as root), starts and stops servers."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time

from tests.services import missing_packages, postgres_server

LINT: dict[str, list[str]] = {
    "Style": ["ruff", "check", "."],
    "Format": ["ruff", "format", "--check", "."],
    "Types": ["mypy"],
    "Migrations": ["manage.py", "makemigrations", "--check", "--dry-run"],
}
IN_PARALLEL = ["--ignore=tests/e2e", "--ignore=tests/servers", "-n", "2", "--dist", "loadfile"]
# Browser tests run in a process of their own: their event loop would be in the way of the asynchronous tests.
SUITES: dict[str, list[str]] = {
    "Tests on SQLite": ["tests", *IN_PARALLEL],
    "Browser tests": ["tests/e2e"],
    "Tests of the services of production": ["tests/servers"],
    # How pages fit a screen doesn't depend on servers.
    "Browser tests on the services of production": ["tests/e2e", "-k", "not (every_width or sideways or phone)"],
    "Database tests on PostgreSQL": ["tests", *IN_PARALLEL, "-m", "django_db and not embedded"],
}
REAL_MODEL = ["tests/real_model"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests", description=__doc__)
    parser.add_argument("--lint-only", action="store_true", help="only style, types and migrations")
    parser.add_argument("--real-model", action="store_true", help="only the tests that need the local model")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="playground-tests-") as folder:
        environment = {**os.environ, "DATA_DIR": folder}
        if options.real_model:
            return 0 if run("Tests with a real model", pytest(REAL_MODEL), environment) else 1
        failed = [name for name, command in LINT.items() if not run(name, tool(command), environment)]
        if not options.lint_only:
            install_packages()
            with postgres_server() as url:
                variables = {
                    "Browser tests on the services of production": {"PRODUCT": "servers"},
                    "Database tests on PostgreSQL": {"DATABASE_URL": url},
                }
                failed += [
                    name
                    for name, arguments in SUITES.items()
                    if not run(name, pytest(arguments), {**environment, **variables.get(name, {})})
                ]
    print(f"\nFailed: {', '.join(failed)}" if failed else "\nAll green.", flush=True)
    return 1 if failed else 0


def tool(command: list[str]) -> list[str]:
    if command[0] == "manage.py":
        return [sys.executable, *command]
    return [sys.executable, "-m", *command]


def pytest(arguments: list[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", *arguments]


def run(name: str, command: list[str], environment: dict[str, str]) -> bool:
    print(f"\n=== {name}", flush=True)
    started = time.monotonic()
    code = subprocess.run(command, env=environment).returncode
    print(f"=== {name}: {'ok' if code == 0 else f'failed ({code})'} in {time.monotonic() - started:.0f} s", flush=True)
    return code == 0


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
