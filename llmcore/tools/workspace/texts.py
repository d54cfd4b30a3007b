"""Bytes of files as text: which encoding, and what is no text at all."""

from __future__ import annotations

import codecs
import os
from dataclasses import dataclass

from llmcore.errors import ToolError
from llmcore.tools.workspace.folders import Folder

# More is not read into memory; a larger file is told so.
MAX_FILE_BYTES = 10_000_000
SNIFFED_BYTES = 8_192

# The longer marks first: one of them begins like a shorter one.
MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FileText:
    """A file's text, with the encoding that it was read with."""

    text: str
    encoding: str


def read_bytes(folder: Folder, name: str, *, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """All of a regular file. ToolError where it is larger than `max_bytes`."""
    descriptor, found = folder.open_file(name)
    with os.fdopen(descriptor, "rb") as file:
        # The size may be a lie (of a file that grows, or of one that the system makes up): one byte more tells.
        data = b"" if found.st_size > max_bytes else file.read(max_bytes + 1)
    size = max(found.st_size, len(data))
    if size > max_bytes:
        raise ToolError(f"{folder.path_of(name)!r} has {size:,} bytes; files of up to {max_bytes:,} can be used.")
    return data


def text_of_bytes(data: bytes) -> FileText | None:
    """The text of `data`; `None` where it is binary. What is neither UTF-8 nor marked is taken for Windows-1252."""
    for mark, encoding in MARKS:
        if data.startswith(mark):
            return FileText(text=data.decode(encoding, "replace"), encoding=encoding.removesuffix("-sig"))
    if b"\0" in data[:SNIFFED_BYTES]:
        return None
    try:
        return FileText(text=data.decode("utf-8"), encoding="utf-8")
    except UnicodeDecodeError:
        return FileText(text=data.decode("cp1252", "replace"), encoding="windows-1252")
