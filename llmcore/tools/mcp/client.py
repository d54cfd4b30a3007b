"""Opens sessions through the official SDK. Nothing but a first call or a listing imports this module."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from pydantic import ValidationError

from llmcore.errors import ConfigurationError
from llmcore.messages import JSON
from llmcore.redaction import Redactor
from llmcore.tools.mcp.checked_http import MAX_REPLY_BYTES, CheckedHTTP
from llmcore.tools.mcp.listing import MAX_TOOLS
from llmcore.tools.mcp.program import Program
from llmcore.tools.mcp.server import MCPServer
from llmcore.tools.mcp.sessions import ServerFailed

logger = logging.getLogger(__name__)

MAX_PAGES = 50
MAX_ERROR_CHARS = 2_000
CLIENT = types.Implementation(name="django-llm-playground", version="1")
# The runtime ends a call long before.
NEVER = 86_400.0
# Errors that the SDK makes up where no answer of the server came.
NO_ANSWER = frozenset({types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT})


@asynccontextmanager
async def connected(server: MCPServer) -> AsyncIterator[OpenSession]:
    """An open session with `server`, closed at the end. ServerFailed says why there is none, or why it broke."""
    words = Words(server)
    try:
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(server.connect_timeout_s):
                transport = await (over_http if server.command is None else over_pipes)(server, words, stack)
                # The first request asks for what older servers don't know; some of them never answer it.
                client = Client(
                    transport, cache=None, client_info=CLIENT, read_timeout_seconds=server.connect_timeout_s / 3
                )
                await stack.enter_async_context(client)
            yield OpenSession(client, words)
    except Exception as error:
        raise words.failure(error) from None


async def over_http(server: MCPServer, words: Words, stack: AsyncExitStack) -> Any:
    key = server.read_key()
    words.redactor = Redactor([key.reveal()])
    http = words.way = CheckedHTTP(server, key)
    timeout = httpx2.Timeout(server.connect_timeout_s, read=server.call_timeout_s)
    # Nothing of the environment: no proxies, no credentials of other programs.
    client = httpx2.AsyncClient(transport=http, timeout=timeout, trust_env=False)
    await stack.enter_async_context(client)
    return streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_REPLY_BYTES)


async def over_pipes(server: MCPServer, words: Words, stack: AsyncExitStack) -> Any:
    command = server.command
    assert command is not None
    words.redactor = Redactor(command.secrets)
    program = words.way = Program(command)
    return program.transport()


class OpenSession:
    """An open session of the SDK, with JSON in its place of its values."""

    def __init__(self, client: Client, words: Words) -> None:
        self._client = client
        self._words = words

    async def call(self, name: str, arguments: dict[str, JSON]) -> dict[str, Any]:
        try:
            return plain(await self._call(name, arguments))
        except Exception as error:
            raise self._words.failure(error) from None

    async def tools(self) -> list[dict[str, Any]]:
        """All pages of its listing, as far as they are read."""
        tools: list[dict[str, Any]] = []
        cursor: str | None = None
        try:
            for _ in range(MAX_PAGES):
                page = await self._client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
                tools += map(plain, page.tools)
                cursor = page.next_cursor
                if cursor is None or len(tools) > MAX_TOOLS:
                    break
        except Exception as error:
            raise self._words.failure(error) from None
        return tools

    def clean(self, text: str) -> str:
        return self._words.redactor.known(text)

    async def _call(self, name: str, arguments: dict[str, JSON]) -> types.CallToolResult:
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=arguments))
        # Not by `call_tool`: that holds results to a schema of the server's own making, whatever time that takes. How
        # long a call may take is the runtime's business.
        session = self._client.session
        try:
            return await session.send_request(request, types.CallToolResult, request_read_timeout_seconds=NEVER)
        except MCPError as error:
            if error.code != types.HEADER_MISMATCH:
                raise
        # It wants arguments in headers, too; which ones, its listing says.
        await session.list_tools()
        return await session.send_request(request, types.CallToolResult, request_read_timeout_seconds=NEVER)


class Words:
    """Says what went wrong with a server, and what to do, without its key."""

    def __init__(self, server: MCPServer) -> None:
        self.server = server
        self.redactor = Redactor()
        self.way: CheckedHTTP | Program | None = None

    def failure(self, error: BaseException) -> ServerFailed:
        leaf = first_of(error)
        if isinstance(leaf, ServerFailed):
            return leaf
        problem = self.way.problem if self.way else ""
        answered = False
        match leaf:
            case ConfigurationError():
                # It says what to do.
                return ServerFailed(str(leaf))
            case MCPError() if not problem and leaf.code not in NO_ANSWER:
                answered = True
                problem = f"it answers with an error: {leaf.message[:MAX_ERROR_CHARS]} (code {leaf.code})"
            case ValidationError() if not problem:
                answered = True
                problem = (
                    "it gave an answer that doesn't fit the protocol, or asks for something that isn't given here."
                )
            case TimeoutError():
                problem = problem or f"it gave no session within {self.server.connect_timeout_s:g} seconds."
            case OSError() if self.server.command is not None:
                problem = f"its command can't be started ({leaf.strerror}). Correct the setting LLM_MCP_COMMANDS."
            case _ if not problem and self.server.command is not None:
                problem = "its command has ended. Start it by hand, as LLM_MCP_COMMANDS has it, to see what it says."
            case _ if not problem:
                logger.warning("the MCP server %s failed: %s", self.server.slug, type(leaf).__name__)
                problem = "the connection broke off. Look whether it runs, and whether its address is right."
        text = f"The MCP server “{self.server.name}” can't be used: {problem}"
        return ServerFailed(self.redactor.patterns(text), answered=answered)


def first_of(error: BaseException) -> BaseException:
    """What went wrong first, in groups of exceptions."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def plain(value: Any) -> dict[str, Any]:
    """A value of the SDK as the JSON that it was."""
    made: dict[str, Any] = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return made
