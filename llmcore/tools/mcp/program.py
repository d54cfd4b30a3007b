"""The SDK's way to a program: over its standard input and output, a line of JSON for each message, none without end."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from llmcore.tools.mcp.checked_http import MAX_REPLY_BYTES
from llmcore.tools.mcp.server import MCPCommand
from llmcore.tools.workspace.command import SUPERVISOR

logger = logging.getLogger(__name__)

# As much as an answer over HTTP may have.
MAX_LINE_BYTES = MAX_REPLY_BYTES
CHUNK_BYTES = 65_536
# Longer than the supervisor takes to end a command and all that it has started.
END_S = 6.0
KILLED_S = 1.0

Arriving = MemoryObjectSendStream[SessionMessage | Exception]
Leaving = MemoryObjectReceiveStream[SessionMessage]
# The session's ends of the two.
Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class Program:
    """A command that is talked to, under its supervisor. `problem` is what it did wrong, in words without any secret.

    The SDK's own `stdio_client` keeps a line until it ends, however much memory that takes, and gives its process and
    pipes to nobody who could bound them. So this is a transport of ours, which the SDK takes in its place; the reader
    of asyncio has the bound, and stops reading the pipe beyond it.
    """

    def __init__(self, command: MCPCommand) -> None:
        self._command = command
        self.problem = ""

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[Streams]:
        """The messages of a started program, which has ended when this is left. OSError where it can't be started."""
        process = await started(self._command)
        # No awaits before `try`: a cancellation between them would leave the program behind.
        arriving, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        sent, leaving = anyio.create_memory_object_stream[SessionMessage](0)
        try:
            async with received, sent, arriving, leaving, anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, process, arriving)
                tasks.start_soon(write, process, leaving, arriving)
                yield received, sent
                tasks.cancel_scope.cancel()
        finally:
            await end(process)

    async def _read(self, process: Process, arriving: Arriving) -> None:
        """Hand the program's messages to the session. A program that breaks the bound is ended at once."""
        assert process.stdout
        async with arriving:
            try:
                while line := await process.stdout.readline():
                    await arriving.send(message_of(line))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return
            except ValueError:
                self.problem = (
                    f"its command wrote a line of more than {MAX_LINE_BYTES // 1024 // 1024} MiB and was ended. Ask it "
                    "for less at once, or correct the program: each message has to be a line of its own."
                )
        await end(process)


async def started(command: MCPCommand) -> Process:
    names = [name for name, _ in command.environment]
    orders = json.dumps({"argv": command.argv, "names": names})
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", str(SUPERVISOR), orders),
        stdin=PIPE,
        stdout=PIPE,
        # What it complains about may hold anything, and is its operator's business.
        stderr=DEVNULL,
        env=dict(command.environment),
        cwd=command.directory,
        start_new_session=True,
        limit=MAX_LINE_BYTES,
    )


def message_of(line: bytes) -> SessionMessage | Exception:
    """The session is given what is no message, too, and goes on."""
    try:
        text = line.decode("utf-8", "replace")
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValueError as error:
        return error


async def write(process: Process, leaving: Leaving, arriving: Arriving) -> None:
    assert process.stdin
    async with leaving:
        try:
            async for message in leaving:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode("utf-8", "replace") + b"\n")
                await process.stdin.drain()
        except OSError:
            # It reads no more, so no answer is waited for.
            await arriving.aclose()


async def end(process: Process) -> None:
    """Take the program's input away, upon which its supervisor ends all of it; return when that is done."""
    assert process.stdin
    with anyio.CancelScope(shield=True):
        # What it hasn't read yet would otherwise keep its input open.
        process.stdin.transport.abort()
        try:
            with anyio.move_on_after(END_S):
                return await ended(process)
            process.kill()
            with anyio.move_on_after(KILLED_S):
                return await ended(process)
            logger.warning("the process %d of an MCP server can't be ended", process.pid)
        finally:
            # Else asyncio does it some turns of the event loop later, which may end before.
            process._transport.close()  # type: ignore[attr-defined]


async def ended(process: Process) -> None:
    """Return when it has ended, which is seen only when all that it wrote was read."""
    assert process.stdout
    while await process.stdout.read(CHUNK_BYTES):
        pass
    await process.wait()
