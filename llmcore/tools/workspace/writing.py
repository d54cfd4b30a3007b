"""Writes files of a workspace: whole, by way of a new file that takes the old one's place, and never through a link."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass

from llmcore.errors import ToolError
from llmcore.tools.workspace.differences import unified
from llmcore.tools.workspace.folders import Folder, folder_at, refuse_special, unreachable
from llmcore.tools.workspace.paths import matches, parts_of, shown
from llmcore.tools.workspace.texts import read_bytes, text_of_bytes
from llmcore.tools.workspace.workspace import Workspace


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A file's content as it is and as it would be. `before` is `None` where there is no such file."""

    parts: tuple[str, ...]
    before: bytes | None
    after: bytes

    @property
    def path(self) -> str:
        return shown(self.parts)

    @property
    def before_sha256(self) -> str | None:
        return None if self.before is None else hashlib.sha256(self.before).hexdigest()

    @property
    def after_sha256(self) -> str:
        return hashlib.sha256(self.after).hexdigest()

    @property
    def diff(self) -> str:
        after = self.after.decode()
        if self.before is None:
            return unified(None, after, self.path)
        before = text_of_bytes(self.before)
        if before is None:
            return (
                f"Binary file of {len(self.before):,} bytes, replaced by this text:\n{unified(None, after, self.path)}"
            )
        head = "" if before.encoding == "utf-8" else f"Encoding of the file: {before.encoding}, then utf-8\n"
        return head + unified(before.text, after, self.path)


def target(path: str) -> tuple[str, ...]:
    parts = parts_of(path)
    if not parts or path.endswith("/"):
        raise ToolError(f"{path!r} names no file. Name one, such as notes/today.md.")
    return parts


def written_freely(workspace: Workspace, parts: tuple[str, ...]) -> bool:
    """Whether the site lets a model write there without asking. The parts are those that are opened, one by one."""
    return any(matches(pattern, parts) for pattern in workspace.write_freely)


def change_of(workspace: Workspace, parts: tuple[str, ...], content: str) -> Change:
    """What writing `content` would change. ToolError where it can't be written."""
    try:
        with folder_at(workspace, parts[:-1]) as folder:
            before = _current(folder, parts[-1])
    except ToolError:
        if _is_missing_folder(workspace, parts[:-1]):
            before = None
        else:
            raise
    return Change(parts=parts, before=before, after=encoded(content))


def write(workspace: Workspace, change: Change) -> None:
    """Make the change. ToolError where the file is another one than when the change was made up."""
    *folders, name = change.parts
    with folder_at(workspace, tuple(folders), create=True) as folder:
        temporary = f".{secrets.token_hex(12)}.new"
        try:
            _fill(folder, temporary, change.after, like=folder.look(name))
            # As late as possible: whoever writes at the same time should not be overwritten unseen.
            if _digest(_current(folder, name)) != change.before_sha256:
                raise ToolError(f"{change.path!r} was changed by someone else meanwhile. Read it and start again.")
            os.replace(temporary, name, src_dir_fd=folder.descriptor, dst_dir_fd=folder.descriptor)
        except OSError as error:
            raise unreachable(change.path, error) from error
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder.descriptor)


def encoded(content: str) -> bytes:
    try:
        return content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolError("The content holds half of a surrogate pair, which is no text. Write it again.") from error


def _current(folder: Folder, name: str) -> bytes | None:
    found = folder.look(name)
    if found is None:
        return None
    refuse_special(folder.path_of(name), found.st_mode)
    return read_bytes(folder, name)


def _digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def _fill(folder: Folder, name: str, data: bytes, *, like: os.stat_result | None) -> None:
    """A new file with the rights of the one that it will replace."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o666, dir_fd=folder.descriptor)
    with os.fdopen(descriptor, "wb") as file:
        if like is not None and stat.S_ISREG(like.st_mode):
            os.fchmod(descriptor, stat.S_IMODE(like.st_mode) & 0o777)
            with suppress(PermissionError):
                os.fchown(descriptor, like.st_uid, like.st_gid)
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _is_missing_folder(workspace: Workspace, parts: tuple[str, ...]) -> bool:
    """Whether the path ends at a folder that isn't there yet, so that it would be made."""
    for count in range(len(parts)):
        with folder_at(workspace, parts[:count]) as folder:
            found = folder.look(parts[count])
            if found is None:
                return True
            if not stat.S_ISDIR(found.st_mode):
                return False
    return False
