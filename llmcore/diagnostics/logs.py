"""The tool that reads recent log records: those of this process from memory, those of others from their files."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Annotated, Literal

from llmcore import store
from llmcore.conf import settings
from llmcore.diagnostics.access import GROUP, PERMISSION
from llmcore.errors import ToolError
from llmcore.messages import JSON
from llmcore.recent_records import MAX_RECORD_CHARS, recent
from llmcore.tools.registry import tool

# Of a log file its end is read, of that the last lines are shown.
TAIL_BYTES = 1_000_000
MAX_CHARS = 25_000
THIS_PROCESS = "worker memory"

Level = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]


@tool(group=GROUP, permission=PERMISSION)
def recent_logs(
    source: Annotated[str, "Whose log; “worker memory” is that of this process.", {"maxLength": 100}] = THIS_PROCESS,
    contains: Annotated[str | None, "Only records with this text, in any case.", {"maxLength": 200}] = None,
    level: Annotated[Level, "Only records of this level and above; files are searched for its name."] = "INFO",
    limit: Annotated[int, {"minimum": 1, "maximum": 200}] = 50,
) -> JSON:
    """The newest log records of this site, the last one at the end. Secrets are masked."""
    lines = [line for line in lines_of(source, level) if contains is None or contains.lower() in line.lower()]
    redactor = store.site_redactor()
    kept: list[str] = []
    room = MAX_CHARS
    for line in reversed(lines[-limit:]):
        line = redactor.patterns(line)
        room -= len(line)
        if room < 0:
            break
        kept.append(line)
    return {"source": source, "sources": sources(), "matching": len(lines), "records": kept[::-1]}


def sources() -> list[str]:
    return [THIS_PROCESS, *sorted(settings.LLM_LOG_FILES)]


def lines_of(source: str, level: Level) -> list[str]:
    least = logging.getLevelNamesMapping()[level]
    if source == THIS_PROCESS:
        return [line for number, line in list(recent.lines) if number >= least]
    if source not in settings.LLM_LOG_FILES:
        raise ToolError(f"There is no log {source[:100]!r}. Logs are: {', '.join(sources())}.")
    names = [name for name, number in logging.getLevelNamesMapping().items() if number >= least]
    return [line[:MAX_RECORD_CHARS] for line in tail(settings.LLM_LOG_FILES[source]) if any(n in line for n in names)]


def tail(path: str) -> Iterator[str]:
    """The last whole lines of a file."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - TAIL_BYTES, 0))
            lines = file.read(TAIL_BYTES).decode("utf-8", "replace").splitlines()
    except OSError as error:
        raise ToolError("The file of this log can't be read. Tell whoever looks after this site.") from error
    yield from lines[1:] if size > TAIL_BYTES else lines
