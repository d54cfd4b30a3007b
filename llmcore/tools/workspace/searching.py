"""Finds a literal text in the files of a workspace, within bounds of files, bytes, matches and time.

There are no patterns: a regular expression of a model could keep a processor busy for hours.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from llmcore.errors import ToolError
from llmcore.tools.workspace.folders import Folder, folder_at
from llmcore.tools.workspace.paths import MAX_PARTS, matches, parts_of, shown
from llmcore.tools.workspace.reading import shortened
from llmcore.tools.workspace.texts import MAX_FILE_BYTES, read_bytes, text_of_bytes
from llmcore.tools.workspace.workspace import Workspace

# What nobody searches for by hand: other people's code, caches, histories.
SKIPPED_FOLDERS = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})
MAX_ENTRIES = 50_000
MAX_BYTES = 100_000_000
MAX_SECONDS = 10.0
MAX_MATCHES_PER_FILE = 20
EXCERPT_CHARS = 200


@dataclass(kw_only=True, slots=True)
class Search:
    """One search: what is looked for, what was found so far, and what keeps it from being complete."""

    text: str
    files: str
    max_matches: int
    ignore_case: bool
    deadline: float
    lines: list[str] = field(default_factory=list)
    found_in: int = 0
    searched: int = 0
    entries: int = 0
    read: int = 0
    too_large: int = 0
    shown: int = 0
    stopped: str = ""

    def through(self, folder: Folder) -> None:
        """Search a folder and those in it, by name."""
        for name, mode in self._entries(folder):
            if self._used_up():
                return
            if stat.S_ISDIR(mode):
                if name not in SKIPPED_FOLDERS and len(folder.parts) < MAX_PARTS:
                    try:
                        inner = folder.enter(name)
                    except ToolError:
                        # Gone or replaced by a link since it was listed, or not ours to read.
                        continue
                    with inner:
                        self.through(inner)
            elif stat.S_ISREG(mode) and matches(self.files, (*folder.parts, name)):
                self.through_file(folder, name)

    def through_file(self, folder: Folder, name: str) -> None:
        try:
            data = read_bytes(folder, name)
        except ToolError:
            self.too_large += 1
            return
        self.searched += 1
        self.read += len(data)
        read = text_of_bytes(data)
        if read is None:
            return
        wanted, searched = (self.text.lower(), read.text.lower()) if self.ignore_case else (self.text, read.text)
        numbers = line_numbers(searched, wanted)
        lines: list[str] = []
        count = 0
        for number, column in numbers:
            lines = lines or read.text.split("\n")
            if count == MAX_MATCHES_PER_FILE:
                self.lines.append(f"{folder.path_of(name)}: more lines match; search this file for a longer text")
                break
            if self.shown == self.max_matches:
                self.stopped = f"{self.max_matches} lines were found; give a longer text or fewer files"
                return
            excerpt = shortened(lines[number - 1].strip(), around=column, chars=EXCERPT_CHARS)
            self.lines.append(f"{folder.path_of(name)}:{number}: {excerpt}")
            self.shown += 1
            count += 1
        self.found_in += count > 0

    def report(self) -> str:
        """What was found, one line each, under a line that says how complete it is."""
        found = f"{self.shown} matching lines in {self.found_in} files" if self.shown else "no match"
        notes = [f"{self.too_large} files that are too large or closed were left out"] if self.too_large else []
        notes += [f"the search stopped early: {self.stopped}"] if self.stopped else []
        head = "; ".join([f"{found}, {self.searched:,} files searched", *notes])
        return "\n".join([f"[{head}]", *self.lines])

    def _entries(self, folder: Folder) -> list[tuple[str, int]]:
        found = []
        try:
            with os.scandir(folder.descriptor) as entries:
                for entry in entries:
                    self.entries += 1
                    if self.entries > MAX_ENTRIES:
                        break
                    try:
                        # A name that is no text can't be asked for either.
                        entry.name.encode()
                        found.append((entry.name, entry.stat(follow_symlinks=False).st_mode))
                    except (OSError, UnicodeEncodeError):
                        continue
        except OSError:
            return []
        return sorted(found)

    def _used_up(self) -> bool:
        if not self.stopped:
            if self.entries > MAX_ENTRIES:
                self.stopped = f"there are more than {MAX_ENTRIES:,} entries"
            elif self.read > MAX_BYTES:
                self.stopped = f"more than {MAX_BYTES:,} bytes were read"
            elif time.monotonic() > self.deadline:
                self.stopped = f"it took more than {MAX_SECONDS:.0f} seconds"
        return bool(self.stopped)


def search(
    workspace: Workspace, text: str, *, path: str, files: str, max_matches: int, ignore_case: bool = True
) -> str:
    """The lines with `text` in the files below `path` that fit the pattern `files`."""
    if "\n" in text or not text.strip():
        raise ToolError("Search for a text of one line.")
    parts = parts_of(path)
    looked = Search(
        text=text,
        files=files,
        max_matches=max_matches,
        ignore_case=ignore_case,
        deadline=time.monotonic() + MAX_SECONDS,
    )
    with folder_at(workspace, parts[:-1]) as folder:
        found = folder.look(parts[-1]) if parts else None
        if not parts:
            looked.through(folder)
        elif found is None:
            raise ToolError(f"There is no {shown(parts)!r} in the workspace.")
        elif stat.S_ISDIR(found.st_mode):
            with folder.enter(parts[-1]) as inner:
                looked.through(inner)
        elif found.st_size > MAX_FILE_BYTES:
            raise ToolError(f"{shown(parts)!r} has {found.st_size:,} bytes; at most {MAX_FILE_BYTES:,} are read.")
        else:
            # One file: what keeps it from being read is the answer.
            os.close(folder.open_file(parts[-1])[0])
            looked.through_file(folder, parts[-1])
    return looked.report()


def line_numbers(text: str, wanted: str) -> Iterator[tuple[int, int]]:
    """The lines of `text`, from 1 on, that hold `wanted`, each once, with its first place in the line."""
    number, start = 1, 0
    while (place := text.find(wanted, start)) >= 0:
        number += text.count("\n", start, place)
        begin = text.rfind("\n", 0, place) + 1
        yield number, place - begin
        end = text.find("\n", place)
        if end < 0:
            return
        number, start = number + 1, end + 1
