"""Paths as a model names them, taken apart without looking at the disk, and the patterns that they are matched with."""

from __future__ import annotations

from fnmatch import fnmatchcase

from llmcore.errors import ToolError

MAX_CHARS = 1_000
MAX_PARTS = 32
# What file systems take at most for one name.
MAX_NAME_BYTES = 255


def parts_of(path: str) -> tuple[str, ...]:
    """The names in a path relative to the workspace, none for the workspace itself.

    ToolError for everything that could lead elsewhere: an absolute path, `..`, characters that no path has.
    """
    if len(path) > MAX_CHARS:
        raise ToolError(f"The path has {len(path):,} characters; at most {MAX_CHARS:,} are possible.")
    if path.startswith("/"):
        raise ToolError(f"{path!r} is an absolute path. Give it relative to the workspace, such as notes/today.md.")
    if any(ord(char) < 32 or ord(char) == 127 or "\ud800" <= char <= "\udfff" for char in path):
        raise ToolError(f"{path!r} holds characters that can't be in a path.")
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if ".." in parts:
        raise ToolError(f"{path!r} leads out of the workspace: “..” is not allowed.")
    if len(parts) > MAX_PARTS:
        raise ToolError(f"The path has {len(parts)} parts; at most {MAX_PARTS} are possible.")
    if long := next((part for part in parts if len(part.encode()) > MAX_NAME_BYTES), None):
        raise ToolError(f"The name {long[:40]!r}… is longer than {MAX_NAME_BYTES} bytes.")
    return parts


def shown(parts: tuple[str, ...]) -> str:
    return "/".join(parts) or "."


def matches(pattern: str, parts: tuple[str, ...]) -> bool:
    """Whether a path fits a pattern: `*` and `?` within a name, `**` any number of folders. As in a shell, none of
    them stands for a name that begins with a dot. A pattern without a slash is about the name alone."""
    wanted = tuple(pattern.strip("/").split("/"))
    if len(wanted) == 1 and wanted != ("**",):
        return bool(parts) and _name_matches(wanted[0], parts[-1])
    # Which beginnings of the pattern the names so far can be; going through them once keeps it from exploding.
    states = _skipping(wanted, {0})
    for name in parts:
        following = set()
        for state in states:
            if state == len(wanted):
                continue
            if wanted[state] == "**":
                if not name.startswith("."):
                    following.add(state)
            elif _name_matches(wanted[state], name):
                following.add(state + 1)
        states = _skipping(wanted, following)
    return len(wanted) in states


def _skipping(wanted: tuple[str, ...], states: set[int]) -> set[int]:
    """The states, and those behind each `**`, which may stand for no folder at all."""
    found = set(states)
    for state in sorted(states):
        while state < len(wanted) and wanted[state] == "**":
            state += 1
            found.add(state)
    return found


def _name_matches(pattern: str, name: str) -> bool:
    if name.startswith(".") and not pattern.startswith("."):
        return False
    return fnmatchcase(name, pattern)
