"""What a reader looks for inside a run: any piece of text, as it stands there, whatever its case."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import islice
from typing import Self

from django.utils.html import format_html
from django.utils.safestring import SafeString

MIN_CHARS = 2
MAX_CHARS = 200
# More of them in one place are not counted.
MAX_COUNT = 1_000
BEFORE_CHARS = 60
AFTER_CHARS = 160


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The first hit in a text with what stands around it, on one line, and how many there are."""

    before: str
    hit: str
    after: str
    count: int

    @property
    def html(self) -> SafeString:
        return format_html("{}<mark>{}</mark>{}", self.before, self.hit, self.after)

    @property
    def counted(self) -> str:
        return f"{MAX_COUNT:,}+" if self.count > MAX_COUNT else f"{self.count:,}"


class Needle:
    """A text to look for. Blanks in it fit any blanks; what JSON spells otherwise is found in either spelling."""

    def __init__(self, text: str) -> None:
        words = text.split()
        spellings = dict.fromkeys((" ".join(words), json.dumps(" ".join(words))[1:-1]))
        self._plain = [spelling.lower() for spelling in spellings] if len(words) == 1 else []
        patterns = (r"\s+".join(map(re.escape, spelling.split(" "))) for spelling in spellings)
        self._pattern = re.compile("|".join(patterns), re.IGNORECASE)

    @classmethod
    def of(cls, text: str) -> Self | None:
        """`None` where there is too little to look for."""
        text = text[:MAX_CHARS].strip()
        return cls(text) if len(text) >= MIN_CHARS else None

    def look(self, text: str) -> Excerpt | None:
        # Comparing regardless of case is slow in a pattern and fast in plain text.
        if self._plain and text.isascii():
            lowered = text.lower()
            if not any(spelling in lowered for spelling in self._plain):
                return None
        hits = self._pattern.finditer(text)
        first = next(hits, None)
        if first is None:
            return None
        start, end = first.span()
        before = " ".join(text[max(start - BEFORE_CHARS, 0) : start].split(" ")).lstrip()
        return Excerpt(
            before=("…" if start > BEFORE_CHARS else "") + before,
            hit=first[0],
            after=text[end : end + AFTER_CHARS] + ("…" if len(text) > end + AFTER_CHARS else ""),
            count=1 + sum(1 for _ in islice(hits, MAX_COUNT)),
        )
