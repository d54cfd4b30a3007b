"""The programs of this site that may be MCP servers, as the setting `LLM_MCP_COMMANDS` has them.

They stand in the settings and not in the admin: such a record would be a shell for whoever may add it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from llmcore.conf import settings
from llmcore.errors import ConfigurationError
from llmcore.tools.mcp.server import MCPCommand
from llmcore.tools.workspace.command import ENVIRONMENT

KEYS = frozenset({"command", "directory", "environment"})


def mcp_commands() -> dict[str, MCPCommand]:
    """All of them by name. ConfigurationError says what is wrong with the setting."""
    return {name: _command(name, entry) for name, entry in settings.LLM_MCP_COMMANDS.items()}


def _command(name: str, entry: Mapping[str, Any]) -> MCPCommand:
    where = f"LLM_MCP_COMMANDS[{name!r}]"
    if not isinstance(entry, Mapping):
        raise ConfigurationError(f"{where} must be a dict with “command”, a list of words.")
    if unknown := sorted(set(entry) - KEYS):
        raise ConfigurationError(
            f"{where} has unknown keys: {', '.join(unknown)}. Known are {', '.join(sorted(KEYS))}."
        )
    words = entry.get("command", ())
    if isinstance(words, str) or not words or not all(isinstance(word, str) and "\0" not in word for word in words):
        raise ConfigurationError(f"{where} needs “command”: a list of words, the program first. No shell reads it.")
    directory = str(entry.get("directory", "/"))
    if not os.path.isabs(directory):
        raise ConfigurationError(f"{where} needs an absolute path as “directory”.")
    environment = entry.get("environment", {})
    if not isinstance(environment, Mapping) or not all(isinstance(value, str) for value in environment.values()):
        raise ConfigurationError(f"{where} needs a dict of texts as “environment”.")
    # Nothing of this site's own environment: it is full of secrets.
    complete = {**ENVIRONMENT, "HOME": directory, **environment}
    return MCPCommand(argv=tuple(words), environment=tuple(complete.items()), directory=directory)
