"""Characters that can't be seen: where a person is to agree to a text, none of them may hide in it."""

from __future__ import annotations

import unicodedata

# Controls, formats (which turn text around), halves of pairs, private and unassigned ones, and separators.
CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
# Marks, letters and symbols by their category, which show nothing: joiners, fillers, variation selectors, blanks.
RANGES = (
    (0x034F, 0x034F),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFFA0, 0xFFA0),
    (0x16FE4, 0x16FE4),
    (0x1D159, 0x1D159),
    (0xE0100, 0xE01EF),
)
# Line breaks and tabs are what they look like.
HARMLESS = "\n\t"
# More of them on one letter cover what is around it.
MOST_MARKS = 2
BLANKS = frozenset(chr(code) for first, last in RANGES for code in range(first, last + 1))


def is_unseen(char: str) -> bool:
    """Whether `char` shows nothing, or changes how its neighbors are shown; a plain space doesn't count."""
    return char != " " and (unicodedata.category(char) in CATEGORIES or char in BLANKS)


def is_mark(char: str) -> bool:
    """Whether `char` is drawn onto the one before it."""
    return unicodedata.category(char) in ("Mn", "Me")


def visible(text: str) -> str:
    """`text` with each character named that shows nothing, or something else than it is: `⟨U+202E⟩`. The bracket that
    such a name begins with is named itself, so that no text can imitate one."""
    if text.isascii() and text.isprintable():
        return text
    shown, marks = [], 0
    for char in text:
        marks = marks + 1 if is_mark(char) else 0
        if char == "⟨" or marks > MOST_MARKS or (is_unseen(char) and char not in HARMLESS):
            shown.append(f"⟨U+{ord(char):04X}⟩")
        else:
            shown.append(char)
    return "".join(shown)
