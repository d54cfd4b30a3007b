"""Runs one command and ends everything that it started: a program of its own, which the tool `terminal` starts.

It is handed its orders as a line of JSON on its standard input, which then stays open: when that closes, whoever gave
them is gone or wants the end. What it has to say goes to the descriptor named in the orders, a line of JSON when the
command begins and one when it has ended. A command that is talked to (an MCP server) has the standard input and output
for itself; its orders are an argument. It imports the standard library only, since it is started without any path.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

LOOK_S = 0.05
END_S = 5.0
# How long a command that is no longer talked to may take to end by itself.
GOODBYE_S = 0.15
# From the kernel's linux/prctl.h.
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38


def main() -> None:
    orders = json.loads(sys.stdin.buffer.readline())
    report: int = orders["report"]
    for descriptor in (report, orders["folder"]):
        os.set_inheritable(descriptor, False)
    # Whatever the command leaves behind becomes ours, however often it forks and whatever session it opens.
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    asked_to_end: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked_to_end.append(number))
    started = time.monotonic()
    command = os.fork()
    if command == 0:
        execute(orders)
    say(report, {"pid": command})
    status, ended_by = watch(command, orders, started, asked_to_end)
    seconds = time.monotonic() - started
    left = end_all(command)
    code = None if status is None else os.waitstatus_to_exitcode(status)
    say(report, {"code": code, "ended_by": ended_by, "left": left, "seconds": round(seconds, 3)})


def serve(orders: dict[str, Any]) -> None:
    """Run a command that reads our standard input and writes our standard output, until whoever talks to it stops."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    asked_to_end: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked_to_end.append(number))
    environment = {name: os.environ[name] for name in orders["names"]}
    folder = os.open(".", os.O_RDONLY)
    command = os.fork()
    if command == 0:
        execute({**orders, "environment": environment, "folder": folder, "limits": {"RLIMIT_CORE": 0}}, talks=True)
    # It alone writes: whoever reads learns when it ends.
    os.close(1)
    talking = select.poll()
    # Nothing is read here; that the other end was closed is told anyway.
    talking.register(0, 0)
    until = None
    while not any(pid == command for pid, _ in reaped()):
        if until is None and (asked_to_end or talking.poll(LOOK_S * 1000)):
            until = time.monotonic() + GOODBYE_S
        elif until is not None:
            if time.monotonic() > until:
                break
            time.sleep(0.005)
    end_all(command)


def watch(command: int, orders: dict[str, Any], started: float, asked_to_end: list[int]) -> tuple[int | None, str]:
    """The status that the command ends with, `None` where it was ended, and why it was."""
    while True:
        for pid, status in reaped():
            if pid == command:
                return status, ""
        if asked_to_end or closed(0):
            return None, "cancel"
        if time.monotonic() - started > orders["timeout_s"]:
            return None, "timeout"
        if sum(threads for _, threads in descendants()) > orders["max_processes"]:
            return None, "processes"


def end_all(command: int) -> int:
    """End all that is left of the command; how many there were at first. Stopped before they are killed, they can't
    fork faster than they are found."""
    found = [pid for pid, _ in descendants()]
    left = len(found)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(command, signal.SIGKILL)
    deadline = time.monotonic() + END_S
    while found and time.monotonic() < deadline:
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        time.sleep(0.005)
        list(reaped())
        found = [pid for pid, _ in descendants()]
    list(reaped())
    return left


def execute(orders: dict[str, Any], *, talks: bool = False) -> NoReturn:
    """Become the command. One that `talks` keeps its input, output and errors."""
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # No program that it runs gets more rights than it has.
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        for number in (signal.SIGPIPE, signal.SIGTERM, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        for name, bound in orders["limits"].items():
            limit(getattr(resource, name), bound)
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
        os.nice(5)
        os.fchdir(orders["folder"])
        if not talks:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(1, 2)
        argv: list[str] = orders["argv"]
        os.execvpe(argv[0], argv, orders["environment"])
    except OSError as error:
        os.write(2 if talks else 1, f"{orders['argv'][0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def limit(kind: int, bound: int) -> None:
    if kind == resource.RLIMIT_NPROC:
        # It counts all processes of the user, not only those of the command.
        bound += threads_of_user()
    _, hard = resource.getrlimit(kind)
    bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
    resource.setrlimit(kind, (bound, bound))


def reaped() -> list[tuple[int, int]]:
    """Processes of ours that have ended, with their statuses."""
    found = []
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(ended)
    return found


def closed(descriptor: int) -> bool:
    """Whether the other end is closed; waits a moment for it."""
    readable, _, _ = select.select([descriptor], [], [], LOOK_S)
    return bool(readable) and os.read(descriptor, 1024) == b""


def descendants() -> list[tuple[int, int]]:
    """All processes that come from this one and still run, with their numbers of threads."""
    children: dict[int, list[tuple[int, int]]] = {}
    for pid, parent, threads in processes():
        children.setdefault(parent, []).append((pid, threads))
    found: list[tuple[int, int]] = []
    waiting = [os.getpid()]
    while waiting:
        for pid, threads in children.get(waiting.pop(), ()):
            found.append((pid, threads))
            waiting.append(pid)
    return found


def processes() -> list[tuple[int, int, int]]:
    """Of each process that runs: its id, its parent's and its number of threads. None where there is no /proc."""
    found = []
    with suppress(FileNotFoundError):
        for name in os.listdir("/proc"):
            if name.isdecimal():
                # It may have ended since.
                with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                    # The name before the last parenthesis may hold anything.
                    fields = file.read().rpartition(b")")[2].split()
                    if fields[0] not in (b"Z", b"X"):
                        found.append((int(name), int(fields[1]), int(fields[17])))
    return found


def threads_of_user() -> int:
    user, count = os.getuid(), 0
    for pid, _, threads in processes():
        with suppress(OSError):
            count += threads if os.stat(f"/proc/{pid}").st_uid == user else 0
    return count


def prctl(option: int, value: int) -> None:
    """Linux only; elsewhere the command's own group is all that can be ended."""
    function = getattr(ctypes.CDLL(None), "prctl", None)
    if function is not None:
        function(option, value, 0, 0, 0)


def say(descriptor: int, value: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):
        os.write(descriptor, json.dumps(value).encode() + b"\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(json.loads(sys.argv[1]))
    else:
        main()
