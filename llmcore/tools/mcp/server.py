"""An MCP server as the runtime knows it: where it is, how long it may take, and what of it is believed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from llmcore.configuration import Secret

SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)


def no_key() -> Secret:
    return Secret("")


@dataclass(frozen=True, kw_only=True, slots=True)
class MCPCommand:
    """A program that speaks MCP over its standard input and output: its words, its whole environment, and the absolute
    folder that it runs in."""

    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    directory: str = "/"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values of its environment that are secrets by their names."""
        return tuple(value for name, value in self.environment if SECRET_NAME.search(name))


@dataclass(frozen=True, kw_only=True, slots=True)
class MCPServer:
    """A server of tools, at a `url` or started as a `command`.

    `slug` is what its tools' names begin with. `read_key` gives the key for its host when a session is opened, empty
    for none; SecretUnavailable says why it can't be had. Times are seconds: to open a session, and for one call.
    `believes_hints` says that an admin trusts what it claims of its tools: that they only read.
    """

    slug: str
    name: str
    url: str = ""
    command: MCPCommand | None = None
    read_key: Callable[[], Secret] = field(default=no_key, repr=False, compare=False)
    allow_private_hosts: bool = False
    connect_timeout_s: float = 10.0
    call_timeout_s: float = 60.0
    believes_hints: bool = False

    @property
    def group(self) -> str:
        """The tool group of its tools. No group of a site's own code is called so, and no configuration has it before
        an admin ticks it there."""
        return f"mcp:{self.slug}"
