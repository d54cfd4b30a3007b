"""Makes what can't be seen in a text seen, where somebody is to agree to exactly that text."""

from __future__ import annotations

import unicodedata

# Line breaks and tabs are what they look like; every other control, format or separator character can hide or reorder.
HARMLESS = "\n\t "
UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})


def visible(text: str) -> str:
    """`text` with each character that shows nothing, or something else than it is, named: `⟨U+202E⟩`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    if character in HARMLESS or unicodedata.category(character) not in UNSEEN:
        return character
    return f"⟨U+{ord(character):04X}⟩"
