"""The last log records of this process, kept in memory for who looks into the site."""

from __future__ import annotations

import logging
from collections import deque
from datetime import UTC, datetime

MAX_RECORD_CHARS = 2_000


class RecentRecords(logging.Handler):
    """Remembers the last records of this process, as lines of bounded length."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.lines: deque[tuple[int, str]] = deque(maxlen=most)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            at = datetime.fromtimestamp(record.created, UTC).isoformat(sep=" ", timespec="milliseconds")
            text = f"{at} {record.levelname} {record.name}: {record.getMessage()}"
            if record.exc_text:
                text += f"\n{record.exc_text}"
            self.lines.append((record.levelno, text[:MAX_RECORD_CHARS]))
        except Exception:
            self.handleError(record)


recent = RecentRecords(500)


def remember_records(most: int) -> None:
    """From now on this process remembers its last `most` log records; none for 0."""
    recent.lines = deque(recent.lines, maxlen=most)
    root = logging.getLogger()
    root.removeHandler(recent)
    if most:
        root.addHandler(recent)
