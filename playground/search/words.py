"""The words of a text, the same for what is indexed and for what is looked for, on every database."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

# Keys, hashes and the like: nobody types more of them.
MAX_WORD_CHARS = 64
# What a word takes in an index besides its letters.
WORD_OVERHEAD_BYTES = 6

_WORD = re.compile(r"[^\W_]+")
# Scripts without spaces: each character is a word, and what is looked for a phrase of them.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


def words_of(text: str) -> Iterator[str]:
    """The words in their order: letters and digits only, without case and accents."""
    for match in _WORD.finditer(_plain(text)):
        yield match[0][:MAX_WORD_CHARS]


def bounded_words_of(text: str, *, max_bytes: int) -> tuple[str, ...]:
    """The words that an index holds in `max_bytes`, from the first on."""
    kept = []
    left = max_bytes
    for word in words_of(text[:max_bytes]):
        left -= len(word.encode("utf-8", "replace")) + WORD_OVERHEAD_BYTES
        if left < 0:
            break
        kept.append(word)
    return tuple(kept)


def _plain(text: str) -> str:
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKD", text).casefold()
    return _UNSPACED.sub(r" \g<0> ", "".join(char for char in text if not unicodedata.combining(char)))
