"""The MCP servers of this site: rows as values, their tools beside those of the site's code, and what they list."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction

from llmcore.errors import ConfigurationError
from llmcore.keys import read_key
from llmcore.mcp_commands import mcp_commands
from llmcore.models import MCPServer
from llmcore.tools.base import Tool
from llmcore.tools.mcp.listing import Definition
from llmcore.tools.mcp.offered import tool_of, wire_name
from llmcore.tools.mcp.server import MCPServer as MCPServerValue
from llmcore.tools.mcp.sessions import fetch_listing
from llmcore.tools.registry import all_tools

# Where somebody waits for a page.
LISTING_S = 30.0
# What a tool's page says where it can't be offered.
OFF = "its MCP server “{}” is disabled"
GONE = "its MCP server “{}” doesn't list it any more"
CHANGED = "its definition has changed since it was accepted: look at it on the page of its MCP server “{}”"


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedTool:
    """A tool of a server as its page shows it: as it was accepted, as it is listed now, or as one of both."""

    name: str
    accepted: Definition | None
    listed: Definition | None

    @property
    def is_new(self) -> bool:
        return self.accepted is None

    @property
    def is_gone(self) -> bool:
        return self.listed is None

    @property
    def is_changed(self) -> bool:
        return self.accepted is not None and self.listed is not None and self.accepted != self.listed

    @property
    def waits(self) -> bool:
        """Whether an admin has to look at it before it is offered."""
        return self.is_new or self.is_changed


def every_tool() -> dict[str, Tool]:
    """All tools of this site by name: those of its code, and those of its MCP servers that were accepted once. Reads
    the stored listings and connects to nothing.

    Where a tool of the code has the name, it counts.
    """
    found: dict[str, Tool] = {}
    for row in MCPServer.objects.exclude(accepted={}).order_by("slug"):
        found.update({tool.name: tool for tool in tools_of(row)})
    return {**found, **all_tools()}


def tools_of(row: MCPServer) -> list[Tool]:
    """The tools that were accepted, as they were then; one that can't be used says why."""
    server = server_value(row)
    return [
        tool_of(server, tool.accepted, off=_why_off(row, tool))
        for tool in listed_tools(row)
        if tool.accepted is not None
    ]


def listed_tools(row: MCPServer) -> list[ListedTool]:
    """What it lists and what was accepted, by name."""
    listed = {item["name"]: Definition.from_json(item) for item in row.listed}
    accepted = {name: Definition.from_json(item) for name, item in row.accepted.items()}
    names = sorted(listed.keys() | accepted.keys())
    return [ListedTool(name=name, accepted=accepted.get(name), listed=listed.get(name)) for name in names]


def tool_name(row: MCPServer, name: str) -> str:
    """What models call the tool that the server calls `name`."""
    return wire_name(server_value(row), name)


def server_value(row: MCPServer) -> MCPServerValue:
    """The server as a value. Its key is read when a session is opened; then it is told, too, where the settings don't
    have its command (any more)."""
    return MCPServerValue(
        slug=row.slug,
        name=row.name,
        url=row.base_url,
        command=mcp_commands().get(row.command) if row.command else None,
        read_key=partial(_key_of, row),
        allow_private_hosts=row.allow_private_hosts,
        connect_timeout_s=row.connect_timeout_s,
        call_timeout_s=row.call_timeout_s,
        believes_hints=row.believes_hints,
    )


def list_tools(row: MCPServer, *, now: datetime) -> list[ListedTool]:
    """Ask the server what tools it has, and store it. ServerFailed says why it can't be asked; nothing changes then."""
    listing = asyncio.run(fetch_listing(server_value(row), timeout_s=LISTING_S))
    row.listed = [definition.to_json() for definition in listing.definitions]
    row.refused = [[item.name, item.reason] for item in listing.refused]
    row.listed_at = now
    row.save(update_fields=["listed", "refused", "listed_at"])
    return listed_tools(row)


@transaction.atomic
def accept_tools(row: MCPServer, digests: Collection[str], *, by: Any, now: datetime) -> list[str]:
    """Agree to the listed definitions with these digests, and take leave of what is listed no more. Gives the names
    that were accepted: a definition that is another one by now isn't what was looked at."""
    row = MCPServer.objects.select_for_update().get(pk=row.pk)
    agreed = {
        tool.name: tool.listed.to_json()
        for tool in listed_tools(row)
        if tool.listed is not None and tool.listed.digest in digests
    }
    still = {item["name"] for item in row.listed}
    kept = {name: item for name, item in row.accepted.items() if name in still}
    row.accepted = {**kept, **agreed}
    row.accepted_at, row.accepted_by = now, by
    row.save(update_fields=["accepted", "accepted_at", "accepted_by"])
    return sorted(agreed)


def _key_of(row: MCPServer) -> Any:
    if row.command and row.command not in mcp_commands():
        raise ConfigurationError(
            f"The MCP server “{row.name}” is the command “{row.command}”, which the setting LLM_MCP_COMMANDS doesn't "
            "have. Add it there, or choose another one on the server's page."
        )
    return read_key(row)


def _why_off(row: MCPServer, tool: ListedTool) -> str:
    if not row.enabled:
        return OFF.format(row.name)
    if tool.is_gone:
        return GONE.format(row.name)
    return CHANGED.format(row.name) if tool.is_changed else ""
