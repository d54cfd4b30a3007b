"""A box as a file: the whole of it, sent piece by piece."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from playground.models import Run
from playground.reading.boxes import Box

PIECE_CHARS = 64_000


@dataclass(frozen=True, slots=True)
class BoxFile:
    """What a file of a box is called, what it is, and its bytes."""

    run: Run
    sequence: int
    box: Box

    @property
    def name(self) -> str:
        return f"run-{self.run.pk}-step-{self.sequence}-{re.sub(r'[^a-z0-9-]', '', self.box.name)}.{self._ending}"

    @property
    def content_type(self) -> str:
        return "application/json" if self.box.is_json else "text/plain; charset=utf-8"

    async def pieces(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self.box.text), PIECE_CHARS):
            yield self.box.text[start : start + PIECE_CHARS].encode()

    @property
    def _ending(self) -> str:
        return "json" if self.box.is_json else "txt"
