"""Makes what can't be seen in a text seen, where somebody is to agree to exactly that text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from llmcore.tools.unseen import is_mark, is_unseen

# Line breaks and tabs are what they look like.
HARMLESS = "\n\t"
# More of them on one letter cover what is around it.
MOST_MARKS = 2
MOST_NAMES = 5
NAMED = re.compile("⟨([^⟩]{1,40})⟩")


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


def unseen_marked(text: str) -> SafeString:
    """HTML of a text that `visible` made: what is named in it looks unlike all that is written in it."""
    return mark_safe(NAMED.sub(r'<mark class="pg-unseen">\1</mark>', escape(text)))


def foreign(texts: Iterable[str]) -> str:
    """Which characters beyond ASCII there are, by their names: a letter may look like another one."""
    found = dict.fromkeys(char for text in texts for char in text if not char.isascii() and not is_unseen(char))
    names = [f"“{char}” is {unicodedata.name(char, f'U+{ord(char):04X}').lower()}" for char in list(found)[:MOST_NAMES]]
    more = f" and {len(found) - MOST_NAMES} more" if len(found) > MOST_NAMES else ""
    return ", ".join(names) + more
