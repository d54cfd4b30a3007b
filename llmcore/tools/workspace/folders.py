"""Reaches files of a workspace step by step through open folders, so that no link leads out of it, not even one that is
put in the way at the last moment."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from llmcore.errors import ToolError
from llmcore.tools.workspace.paths import shown
from llmcore.tools.workspace.workspace import Workspace

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without waiting for the other end of a pipe, and without becoming anyone's terminal.
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Folder:
    """An open folder of a workspace. What is in it is named relative to its descriptor."""

    def __init__(self, descriptor: int, parts: tuple[str, ...]) -> None:
        self.descriptor = descriptor
        self.parts = parts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self.descriptor)

    def path_of(self, name: str) -> str:
        return shown((*self.parts, name))

    def look(self, name: str) -> os.stat_result | None:
        """What is known of an entry, of a link itself where it is one; `None` where there is none."""
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unreachable(self.path_of(name), error) from error

    def enter(self, name: str, *, create: bool = False) -> Folder:
        """The folder `name` of this one."""
        try:
            if create:
                self._make(name)
            return Folder(os.open(name, FOLDER_FLAGS, dir_fd=self.descriptor), (*self.parts, name))
        except OSError as error:
            self._refuse_link(name)
            raise unreachable(self.path_of(name), error, wanted="a folder") from error

    def open_file(self, name: str) -> tuple[int, os.stat_result]:
        """A descriptor of the regular file `name`, for reading, and what is known of it."""
        found = self.look(name)
        if found is None:
            raise ToolError(f"There is no file {self.path_of(name)!r} in the workspace. List its folder.")
        refuse_special(self.path_of(name), found.st_mode)
        try:
            descriptor = os.open(name, FILE_FLAGS, dir_fd=self.descriptor)
        except OSError as error:
            self._refuse_link(name)
            raise unreachable(self.path_of(name), error) from error
        opened = os.fstat(descriptor)
        try:
            # It may have become something else since it was looked at.
            refuse_special(self.path_of(name), opened.st_mode)
        except ToolError:
            os.close(descriptor)
            raise
        return descriptor, opened

    def _make(self, name: str) -> None:
        try:
            os.mkdir(name, dir_fd=self.descriptor)
        except FileExistsError:
            return

    def _refuse_link(self, name: str) -> None:
        found = self.look(name)
        if found is not None and stat.S_ISLNK(found.st_mode):
            raise ToolError(f"{self.path_of(name)!r} is a link, and links are not followed. Name the file itself.")


def open_root(workspace: Workspace) -> Folder:
    try:
        return Folder(os.open(workspace.root, FOLDER_FLAGS), ())
    except OSError as error:
        raise ToolError("The folder of this workspace can't be opened. Tell whoever looks after this site.") from error


@contextmanager
def folder_at(workspace: Workspace, parts: tuple[str, ...], *, create: bool = False) -> Iterator[Folder]:
    """The folder of these parts, open; with `create`, folders that aren't there are made."""
    folder = open_root(workspace)
    try:
        for name in parts:
            inner = folder.enter(name, create=create)
            os.close(folder.descriptor)
            folder = inner
        yield folder
    finally:
        os.close(folder.descriptor)


def refuse_special(path: str, mode: int) -> None:
    """ToolError for all that isn't a regular file."""
    if stat.S_ISREG(mode):
        return
    if stat.S_ISLNK(mode):
        raise ToolError(f"{path!r} is a link, and links are not followed. Name the file itself.")
    if stat.S_ISDIR(mode):
        raise ToolError(f"{path!r} is a folder, not a file.")
    raise ToolError(f"{path!r} is a device, a pipe or a socket, not a file.")


def unreachable(path: str, error: OSError, *, wanted: str = "a file") -> ToolError:
    """What to tell a model of a path that the system refused. The system's own words may name places outside."""
    match error.errno:
        case errno.ENOENT:
            return ToolError(f"There is no {path!r} in the workspace.")
        case errno.ENOTDIR | errno.EISDIR | errno.ELOOP:
            return ToolError(f"{path!r} is not {wanted}.")
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return ToolError(f"This site may not open or change {path!r}.")
        case errno.ENOSPC | errno.EDQUOT:
            return ToolError(f"There is no space left for {path!r}.")
    return ToolError(f"{path!r} can't be used: {os.strerror(error.errno or 0)}.")
