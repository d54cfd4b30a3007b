"""Where in a text the words are that were searched for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from playground.search.query import Term, terms_of

EXCERPT_CHARS = 160
# Of an excerpt, before the first word that was searched for.
BEFORE_CHARS = 12

_SPACED_SCRIPT = re.compile(r"[\u0000-\u2fff\uac00-\ud7ff]+")


@dataclass(frozen=True, slots=True)
class Search:
    """The words of a search, to be marked in what is shown. Where accents are left out, the mark is, too."""

    pattern: re.Pattern[str] | None = None

    @classmethod
    def of(cls, text: str) -> Self:
        terms = terms_of(text)
        return cls(re.compile("|".join(map(_pattern, terms)), re.IGNORECASE) if terms else None)

    def fragment(self, text: str) -> str:
        """`text` around the first hit, on one line; empty where there is none."""
        text = " ".join(text.split())
        hit = self.pattern and self.pattern.search(text)
        if not hit:
            return ""
        start = max(hit.start() - BEFORE_CHARS, 0)
        start = text.find(" ", start, hit.start()) + 1 or start if start else 0
        return shortened(("…" if start else "") + text[start:])

    def marked(self, text: str) -> SafeString:
        """`text`, escaped, with its hits as `mark` elements."""
        if self.pattern is None:
            return format_html("{}", text)
        pieces, end = [], 0
        for hit in self.pattern.finditer(text):
            pieces.append((text[end : hit.start()], hit[0]))
            end = hit.end()
        return format_html("{}{}", format_html_join("", "{}<mark>{}</mark>", pieces), text[end:])


def _pattern(term: Term) -> str:
    words = r"[\W_]*".join(map(re.escape, term.words))
    if not _SPACED_SCRIPT.fullmatch("".join(term.words)):
        return words
    return rf"(?<![^\W_]){words}" + ("" if term.prefix else r"(?![^\W_])")


def shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= EXCERPT_CHARS else text[: EXCERPT_CHARS - 1].rstrip() + "…"


NO_SEARCH = Search()
