"""A run's session with a server: opened by the first call, shared by all of them, closed when the run stops.

An opened session belongs to a task of its own, since the SDK wants it closed by whoever opened it, and calls come from
others.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol, TypeVar

from llmcore.errors import ToolError
from llmcore.messages import JSON
from llmcore.tools.base import ToolContext
from llmcore.tools.mcp.listing import Listing, read_listing
from llmcore.tools.mcp.results import result_of_call
from llmcore.tools.mcp.server import MCPServer
from llmcore.tools.results import FailureKind, ToolResult

# How long a session may take to say goodbye before it is dropped.
CLOSE_S = 0.4
DROP_S = 0.1

Value = TypeVar("Value")


class ServerFailed(ToolError):
    """A server can't be reached, broke off, or answered with an error; the text says what to do, without any secret.

    `answered` says that it was the server's own answer, so its session goes on.
    """

    def __init__(self, text: str, *, answered: bool = False) -> None:
        super().__init__(text)
        self.answered = answered


class Connection(Protocol):
    """An open session, as `client` makes it. Each raises ServerFailed."""

    async def call(self, name: str, arguments: dict[str, JSON]) -> dict[str, Any]: ...

    async def tools(self) -> list[dict[str, Any]]: ...

    def clean(self, text: str) -> str:
        """`text` without the server's key, which it may send back."""


class _Link:
    """One opened session and the task that it belongs to."""

    def __init__(self, server: MCPServer) -> None:
        self.ready: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._task = asyncio.create_task(self._live(server), name=f"MCP server {server.slug}")
        self._failure = ServerFailed(
            f"The connection to the MCP server “{server.name}” was closed. Call the tool again."
        )

    @property
    def is_over(self) -> bool:
        return self._task.done()

    async def answer(self, asking: Awaitable[Value]) -> Value:
        """What is asked of the session; ServerFailed where it ends before that."""
        asked = asyncio.ensure_future(asking)
        try:
            await asyncio.wait({asked, self._task}, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                return asked.result()
            raise self._failure
        finally:
            asked.cancel()
            with suppress(asyncio.CancelledError, ServerFailed):
                await asked

    async def close(self) -> None:
        self._closing.set()
        await asyncio.wait({self._task}, timeout=CLOSE_S)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=DROP_S)

    async def _live(self, server: MCPServer) -> None:
        try:
            # In a thread: the SDK takes most of a second to import, in which a run could not be cancelled.
            client = await asyncio.to_thread(importlib.import_module, "llmcore.tools.mcp.client")
            async with client.connected(server) as connection:
                self.ready.set_result(connection)
                await self._closing.wait()
        except ServerFailed as failure:
            self._failure = failure
        except ImportError:
            self._failure = ServerFailed("MCP servers can't be called here: the package “mcp” has to be installed.")
        finally:
            if not self.ready.done():
                self.ready.set_exception(self._failure)
                # Who waited for it may have been cancelled.
                self.ready.exception()


class Session:
    """What a run has open to one server."""

    def __init__(self, server: MCPServer) -> None:
        self._server = server
        self._link: _Link | None = None

    async def call(self, name: str, arguments: dict[str, JSON], *, reads_only: bool) -> ToolResult:
        """Call the server's tool `name`. ServerFailed where it was not called, or answered with an error."""
        link, connection = await self._connected()
        try:
            answer = await link.answer(connection.call(name, arguments))
        except ServerFailed as failure:
            if failure.answered or reads_only:
                raise
            text = f"{failure} Whether the call had an effect is unknown."
            return ToolResult.failed(FailureKind.TOOL_ERROR, text, effect_unknown=True)
        return result_of_call(answer, clean=connection.clean)

    async def listing(self) -> Listing:
        """What the server lists now."""
        link, connection = await self._connected()
        return read_listing(await link.answer(connection.tools()))

    async def close(self) -> None:
        if self._link is not None:
            await self._link.close()

    async def _connected(self) -> tuple[_Link, Connection]:
        if self._link is None or self._link.is_over:
            self._link = _Link(self._server)
        link = self._link
        # Shielded: one call that is given up must not take the session from the others.
        return link, await asyncio.shield(link.ready)


@asynccontextmanager
async def session_for(server: MCPServer, context: ToolContext) -> AsyncIterator[Session]:
    """The run's session with `server`; one for this call alone where a tool is called outside a run."""
    if context.resources is not None:
        yield context.resources.take(("mcp", server.slug), lambda: Session(server))
        return
    session = Session(server)
    try:
        yield session
    finally:
        await session.close()


async def fetch_listing(server: MCPServer, *, timeout_s: float) -> Listing:
    """What `server` lists now; ServerFailed says why it can't be had."""
    session = Session(server)
    try:
        async with asyncio.timeout(timeout_s):
            return await session.listing()
    except TimeoutError:
        raise ServerFailed(
            f"The MCP server “{server.name}” did not list its tools within {timeout_s:g} seconds. Look whether it is "
            "overloaded, or give it more time."
        ) from None
    finally:
        await session.close()
