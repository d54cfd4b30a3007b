"""The workspaces of this site, as the setting `LLM_WORKSPACES` has them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from llmcore.conf import settings
from llmcore.errors import ConfigurationError
from llmcore.tools.workspace.workspace import Workspace

KEYS = frozenset({"root", "write", "terminal", "write_freely", "environment"})


def workspaces() -> dict[str, Workspace]:
    """All of them by name. ConfigurationError says what is wrong with the setting."""
    return {name: _workspace(name, entry) for name, entry in settings.LLM_WORKSPACES.items()}


def workspace_named(name: str) -> Workspace | None:
    """The workspace that a configuration names; `None` where it names none, or one that this site doesn't have."""
    return workspaces().get(name)


def _workspace(name: str, entry: Mapping[str, Any]) -> Workspace:
    where = f"LLM_WORKSPACES[{name!r}]"
    known = ", ".join(sorted(KEYS))
    if unknown := sorted(set(entry) - KEYS):
        raise ConfigurationError(f"{where} has unknown keys: {', '.join(unknown)}. Known are {known}.")
    root = str(entry.get("root", ""))
    if not os.path.isabs(root):
        raise ConfigurationError(f"{where} needs “root”: the absolute path of a folder.")
    # Where it really is: below it, links are not followed.
    real = os.path.realpath(root)
    if real == os.path.sep:
        raise ConfigurationError(f"{where} is the whole disk. Name a folder of its own.")
    patterns = entry.get("write_freely", ())
    if isinstance(patterns, str):
        raise ConfigurationError(f"{where} needs a list of patterns as “write_freely”, not a text.")
    return Workspace(
        name=name,
        root=real,
        write=bool(entry.get("write", False)),
        terminal=bool(entry.get("terminal", False)),
        write_freely=tuple(patterns),
        environment=tuple(dict(entry.get("environment", {})).items()),
    )
