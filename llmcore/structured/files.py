"""Reads the files of a prompt pack, from inside its folder and nowhere else."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from llmcore.errors import InvalidRoot, MissingContent

MAX_FILE_BYTES = 1_000_000


def read_file(root: Path, path: str, owner: str) -> bytes:
    """The bytes of `root/path`. InvalidRoot where the path leads out of the folder, by `..`, as an absolute one or over
    a link; MissingContent where there is no such file. `owner` is named in errors."""
    given = PurePosixPath(path)
    if given.is_absolute() or ".." in given.parts or str(given) != path or "\0" in path:
        raise InvalidRoot(f"“{path}” of {owner} is no path inside the folder of its pack.")
    found = (root / given).resolve()
    if not found.is_relative_to(root):
        raise InvalidRoot(f"“{path}” of {owner} leads out of the folder of its pack.")
    if not found.is_file():
        raise MissingContent(f"There is no file “{path}” for {owner}.")
    with found.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise MissingContent(f"“{path}” of {owner} is larger than {MAX_FILE_BYTES:,} bytes.")
    return data
