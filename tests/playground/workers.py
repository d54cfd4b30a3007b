"""Real Celery workers beside a test, on its database and queue, and what a test looks at from outside."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from playground.models import Run, RunPartial
from tests.playground.beside import ROOT
from tests.playground.driven import wait_for

# Long enough that a worker on a busy machine renews it in time.
LEASE_S = 4.0
COMMAND = "-m celery -A config worker --pool threads --concurrency 4 --without-gossip --without-mingle"
StartWorker = Callable[..., subprocess.Popen[bytes]]


@contextmanager
def workers(environment: dict[str, str], folder: Path) -> Iterator[StartWorker]:
    """Starts workers, waits until they take runs, and ends them at last. Their logs lie in `folder`."""
    with ExitStack() as stack:
        started: list[subprocess.Popen[bytes]] = []

        def start(**changes: str) -> subprocess.Popen[bytes]:
            path = folder / f"worker-{len(started)}.log"
            log = stack.enter_context(path.open("wb"))
            process = subprocess.Popen(
                [sys.executable, *COMMAND.split(), "--loglevel", "INFO", "-n", f"w{len(started)}@test"],
                cwd=ROOT,
                env={**environment, **changes},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            started.append(process)
            stack.callback(end, process)
            wait_for(lambda: b" ready." in path.read_bytes() or process.poll() is not None, "the worker", 60)
            assert process.poll() is None, path.read_text()
            return process

        yield start


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()


def status(run: Run) -> str:
    return str(Run.objects.values_list("status", flat=True).get(pk=run.pk))


def kinds(run: Run) -> list[str]:
    return list(run.steps.values_list("kind", flat=True))


def streaming(run: Run) -> bool:
    return RunPartial.objects.filter(run=run).exclude(text="").exists()


def manage(environment: dict[str, str], code: str) -> str:
    """What `code` prints in a process of its own."""
    command = [sys.executable, "manage.py", "shell", "--no-imports", "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout
