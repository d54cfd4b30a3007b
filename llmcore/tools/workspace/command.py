"""Runs a command in a workspace under a supervisor of its own, and keeps a bounded part of what it writes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any

from llmcore.tools.workspace.folders import open_root
from llmcore.tools.workspace.workspace import Workspace

SUPERVISOR = Path(__file__).with_name("supervisor.py")
# What goes on being read, so that the command doesn't wait, but is not kept.
HEAD_BYTES = TAIL_BYTES = 15_000
# A command that writes more than this is ended.
MAX_OUTPUT_BYTES = 50_000_000
MAX_PROCESSES = 100
# How long the supervisor may take to end everything before it is killed itself.
GRACE_S = 0.4
LIMITS = {
    "RLIMIT_CORE": 0,
    "RLIMIT_FSIZE": 200_000_000,
    "RLIMIT_NOFILE": 256,
    "RLIMIT_NPROC": MAX_PROCESSES,
    # What a program has written to, not what it has only set aside, as some runtimes do by the terabyte.
    "RLIMIT_DATA": 2_000_000_000,
}
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}


@dataclass(kw_only=True, slots=True)
class Output:
    """The beginning and the end of what a command writes, and how much there was."""

    size: int = 0
    head: bytearray = field(default_factory=bytearray)
    tail: deque[bytes] = field(default_factory=deque)
    tail_size: int = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        room = max(HEAD_BYTES - len(self.head), 0)
        self.head += data[:room]
        rest = data[room:]
        if rest:
            self.tail.append(rest)
            self.tail_size += len(rest)
        while self.tail and self.tail_size - len(self.tail[0]) >= TAIL_BYTES:
            self.tail_size -= len(self.tail.popleft())

    @property
    def text(self) -> str:
        tail = b"".join(self.tail)[-TAIL_BYTES:]
        left_out = self.size - len(self.head) - len(tail)
        middle = f"\n[… {left_out:,} bytes left out …]\n".encode() if left_out else b""
        return (bytes(self.head) + middle + tail).decode("utf-8", "replace")


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandEnd:
    """How a command ended. `code` is its exit code, negative for a signal, `None` where it was ended from here;
    `ended_by` says why it was ("timeout", "processes", "output"), `left` how many processes it left behind."""

    code: int | None
    ended_by: str
    left: int
    seconds: float | None
    output: Output


async def run_command(workspace: Workspace, argv: tuple[str, ...], *, timeout_s: float) -> CommandEnd:
    """Run `argv` in the workspace's folder. Cancelled, it ends the command and all that it started."""
    with open_root(workspace) as folder:
        said, report = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-S",
                str(SUPERVISOR),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                pass_fds=(folder.descriptor, report),
                env={},
                # Ctrl-C in the terminal of this site is not for it.
                start_new_session=True,
            )
        except BaseException:
            os.close(said)
            raise
        finally:
            os.close(report)
        orders = {
            "argv": argv,
            "environment": {**ENVIRONMENT, "HOME": workspace.root, **dict(workspace.environment)},
            "folder": folder.descriptor,
            "limits": LIMITS,
            "max_processes": MAX_PROCESSES,
            "report": report,
            "timeout_s": timeout_s,
        }
    return await Followed(process=process, said=os.fdopen(said, "rb", 0)).to_its_end(orders)


@dataclass(kw_only=True, slots=True)
class Followed:
    """A supervisor at work, with the pipe that it reports to."""

    process: asyncio.subprocess.Process
    said: FileIO
    output: Output = field(default_factory=Output)
    flooded: bool = False

    async def to_its_end(self, orders: dict[str, Any]) -> CommandEnd:
        # The pipe of its reports closes with the supervisor; that of the output may be held by whoever escaped it.
        reports = asyncio.create_task(all_of(self.said))
        reading = asyncio.create_task(self._read())
        try:
            self._stdin.write(json.dumps(orders).encode() + b"\n")
            await asyncio.wait({reports})
            await asyncio.wait({reading}, timeout=GRACE_S)
        finally:
            await self._end(reports, reading)
        return self._report(reports.result())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while data := await self.process.stdout.read(65_536):
            self.output.add(data)
            if self.output.size > MAX_OUTPUT_BYTES and not self.flooded:
                self.flooded = True
                self._stdin.close()

    async def _end(self, reports: asyncio.Task[list[Any]], reading: asyncio.Task[None]) -> None:
        """Make sure that nothing of it goes on, whether it has ended by itself or not."""
        self._stdin.close()
        await asyncio.wait({reports}, timeout=GRACE_S)
        said = reports.result() if reports.done() and not reports.cancelled() else []
        if not any("code" in line for line in said):
            # It was killed, or hangs: what is left of its command is at least one group.
            with suppress(ProcessLookupError):
                self.process.kill()
            for line in said:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(line["pid"], signal.SIGKILL)
        ended = asyncio.create_task(self.process.wait())
        await asyncio.wait({ended}, timeout=GRACE_S)
        for task in (reports, reading, ended):
            task.cancel()
        await asyncio.gather(reports, reading, ended, return_exceptions=True)

    def _report(self, said: list[Any]) -> CommandEnd:
        end = next((line for line in said if "code" in line), None)
        if end is None:
            return CommandEnd(code=None, ended_by="supervisor", left=0, seconds=None, output=self.output)
        ended_by = "output" if self.flooded else end["ended_by"]
        return CommandEnd(
            code=end["code"], ended_by=ended_by, left=end["left"], seconds=end["seconds"], output=self.output
        )

    @property
    def _stdin(self) -> asyncio.StreamWriter:
        assert self.process.stdin is not None
        return self.process.stdin


async def all_of(file: FileIO) -> list[Any]:
    """The lines of JSON that come through a pipe until it is closed."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    try:
        return [json.loads(line) async for line in reader]
    finally:
        transport.close()
