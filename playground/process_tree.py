"""Child processes that live and die together with this one."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# From <sys/prctl.h>.
PR_SET_PDEATHSIG = 1
TERMINATE_S = 10.0
POLL_S = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Child:
    """A started program; what it prints goes to `log`."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def last_lines(self, count: int = 15) -> list[str]:
        return self.log.read_text(errors="replace").splitlines()[-count:]


class ProcessTree:
    """The children of this process. None of them outlives `stop()`, and on Linux none outlives this process."""

    def __init__(self, *, folder: Path, log_folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._log_folder = log_folder
        self._environment = dict(environment)
        self._children: list[Child] = []
        log_folder.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, command: Sequence[str]) -> Child:
        """Start a Python program (`command` are the interpreter's arguments); its log begins anew."""
        log = self._log_folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, *command],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Out of the terminal's process group: Ctrl-C reaches this process alone, which stops them in order.
                start_new_session=True,
                preexec_fn=_dies_with(os.getpid()),
            )
        child = Child(name=name, process=process, log=log)
        self._children.append(child)
        return child

    def dead(self) -> Child | None:
        """A child that has ended by itself, if there is one."""
        return next((child for child in self._children if child.process.poll() is not None), None)

    def stop(self, hurry: Callable[[], bool] = lambda: False) -> None:
        """End all children: asked first, killed when they take too long or when it becomes a `hurry`."""
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + TERMINATE_S
        while self._alive() and time.monotonic() < deadline and not hurry():
            time.sleep(POLL_S)
        self._signal(signal.SIGKILL)
        for child in self._children:
            child.process.wait()
        self._children.clear()

    def _alive(self) -> list[Child]:
        return [child for child in self._children if child.process.poll() is None]

    def _signal(self, number: signal.Signals) -> None:
        for child in self._alive():
            # Each child leads a group of its own: what it started ends with it.
            os.killpg(child.process.pid, number)


def _dies_with(parent: int) -> Callable[[], None] | None:
    """What a child runs first, so that the kernel ends it when `parent` dies, however that happens."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)

    def bind() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        # It may have died before this was set.
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)

    return bind
