"""A server's definition as a tool of this site: its name, its effect, and the call that goes to the server."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from llmcore.tools.base import Effect, Tool, ToolContext
from llmcore.tools.mcp.listing import Definition
from llmcore.tools.mcp.server import MCPServer
from llmcore.tools.mcp.sessions import session_for
from llmcore.tools.registry import NAME
from llmcore.tools.results import ToolResult

# No slug has it, so the first one in a name ends the slug.
SEPARATOR = "__"
MAX_NAME_CHARS = 64
UNUSABLE = re.compile(r"[^a-zA-Z0-9_-]")
DIGEST_CHARS = 8
# No argument of a tool can have this name: what a server wants to be called "context" reaches it.
CONTEXT = "the context of the run"


def wire_name(server: MCPServer, name: str) -> str:
    """What the model calls a server's tool: no two tools, of whatever servers, have the same."""
    wanted = f"{server.slug}{SEPARATOR}{name}"
    if NAME.match(wanted):
        return wanted
    # Two names may differ in what can't be said only.
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARS]
    return f"{UNUSABLE.sub('_', wanted)[: MAX_NAME_CHARS - DIGEST_CHARS - 1]}_{digest}"


def tool_of(server: MCPServer, definition: Definition, *, off: str = "") -> Tool:
    """The tool that calls `server`. `off` is a sentence on why nobody can use it now; empty where it can be used.

    What a server says of its tools is a hint. Unless it is trusted, each call needs approval and is never repeated.
    """
    believed = server.believes_hints and definition.reads_only

    async def call_server(**arguments: Any) -> ToolResult:
        context: ToolContext = arguments.pop(CONTEXT)
        async with session_for(server, context) as session:
            return await session.call(definition.name, arguments, reads_only=believed)

    return Tool(
        name=wire_name(server, definition.name),
        description=definition.told,
        parameters=definition.parameters,
        run=call_server,
        group=server.group,
        effect=Effect.READ_ONLY if believed else Effect.NON_IDEMPOTENT_WRITE,
        requires_approval=not believed,
        timeout_s=server.call_timeout_s,
        context_parameter=CONTEXT,
        off_because=(lambda context: off) if off else None,
    )
