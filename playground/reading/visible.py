"""What `visible` makes of a text as HTML, and which characters look like others, where somebody is to agree to exactly
that text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from llmcore.tools.unseen import is_unseen

MOST_NAMES = 5
NAMED = re.compile("⟨([^⟩]{1,40})⟩")


def unseen_marked(text: str) -> SafeString:
    """HTML of a text that `visible` made: what is named in it looks unlike all that is written in it."""
    return mark_safe(NAMED.sub(r'<mark class="pg-unseen">\1</mark>', escape(text)))


def foreign(texts: Iterable[str]) -> str:
    """Which characters beyond ASCII there are, by their names: a letter may look like another one."""
    found = dict.fromkeys(char for text in texts for char in text if not char.isascii() and not is_unseen(char))
    names = [f"“{char}” is {unicodedata.name(char, f'U+{ord(char):04X}').lower()}" for char in list(found)[:MOST_NAMES]]
    more = f" and {len(found) - MOST_NAMES} more" if len(found) > MOST_NAMES else ""
    return ", ".join(names) + more
