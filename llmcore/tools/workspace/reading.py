"""Reads a window of lines of a file, and lists folders, as a model can use them."""

from __future__ import annotations

import os
import stat
from heapq import nsmallest

from llmcore.errors import ToolError
from llmcore.tools.workspace.folders import Folder, folder_at, unreachable
from llmcore.tools.workspace.paths import parts_of, shown
from llmcore.tools.workspace.texts import read_bytes, text_of_bytes
from llmcore.tools.workspace.workspace import Workspace

# Below what a configuration lets a tool return, so that the answer ends with a line on how to go on.
MAX_CHARS = 30_000
MAX_LINE_CHARS = 2_000
MAX_ENTRIES = 300
# Of a folder with more entries not even the names are looked at.
MAX_LISTED = 50_000


def read(workspace: Workspace, path: str, *, first_line: int, max_lines: int) -> str:
    """The lines of a file from `first_line` (from 1) on under a line that says what they are, or a folder's list."""
    parts = parts_of(path)
    if not parts:
        with folder_at(workspace, ()) as folder:
            return listing(folder)
    with folder_at(workspace, parts[:-1]) as folder:
        found = folder.look(parts[-1])
        if found is not None and stat.S_ISDIR(found.st_mode):
            with folder.enter(parts[-1]) as inner:
                return listing(inner)
        return window(shown(parts), read_bytes(folder, parts[-1]), first_line, max_lines)


def window(path: str, data: bytes, first_line: int, max_lines: int) -> str:
    read = text_of_bytes(data)
    if read is None:
        raise ToolError(f"{path!r} is a binary file of {len(data):,} bytes: it has no text to read.")
    lines = read.text.split("\n")
    if lines[-1] == "":
        lines.pop()
    encoding = "" if read.encoding == "utf-8" else f", {read.encoding}"
    if not lines:
        return f"[{path}: empty]"
    if first_line > len(lines):
        raise ToolError(f"{path!r} has {len(lines):,} lines; there is no line {first_line:,}.")
    kept: list[str] = []
    room = MAX_CHARS
    for line in lines[first_line - 1 : first_line - 1 + max_lines]:
        short = shortened(line.rstrip("\r"))
        room -= len(short) + 1
        if room < 0 and kept:
            break
        kept.append(short)
    last = first_line + len(kept) - 1
    more = f"; go on with first_line={last + 1}" if last < len(lines) else ""
    head = f"[{path}: lines {first_line:,} to {last:,} of {len(lines):,}{encoding}{more}]"
    return "\n".join([head, *kept])


def shortened(line: str, *, around: int = 0, chars: int = MAX_LINE_CHARS) -> str:
    """At most `chars` characters of a line, those around a place in it, and how many are missing."""
    if len(line) <= chars:
        return line
    start = max(min(around - chars // 4, len(line) - chars), 0)
    end = start + chars
    before = f"[{start:,} characters] … " if start else ""
    after = f" … [{len(line) - end:,} characters more]" if end < len(line) else ""
    return f"{before}{line[start:end]}{after}"


def listing(folder: Folder) -> str:
    """The entries of a folder by name, folders first, each with its size."""
    try:
        with os.scandir(folder.descriptor) as entries:
            names = [entry.name for _, entry in zip(range(MAX_LISTED), entries, strict=False)]
    except OSError as error:
        raise unreachable(shown(folder.parts), error, wanted="a folder") from error
    rows = [row for name in nsmallest(MAX_ENTRIES * 2, names) if (row := _row(folder, name))]
    rows.sort()
    count = f"{len(names):,}" + ("+" if len(names) == MAX_LISTED else "")
    head = f"[folder {shown(folder.parts)}: {count} entries]"
    left_out = len(names) - min(len(rows), MAX_ENTRIES)
    more = [f"… and {left_out:,} more"] if left_out > 0 else []
    return "\n".join([head, *(text for _, text in rows[:MAX_ENTRIES]), *more])


def _row(folder: Folder, name: str) -> tuple[tuple[bool, str], str] | None:
    found = folder.look(name)
    if found is None:
        return None
    # A name on the disk may be no text at all.
    legible = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if stat.S_ISDIR(found.st_mode):
        return (False, name), f"{legible}/"
    if stat.S_ISREG(found.st_mode):
        return (True, name), f"{legible}  {found.st_size:,} bytes"
    kind = "link, not followed" if stat.S_ISLNK(found.st_mode) else "no regular file"
    return (True, name), f"{legible}  ({kind})"
