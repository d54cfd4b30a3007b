"""What a person types to find runs. Any text is a query: there is no syntax that could be wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass

from playground.search.words import words_of

MAX_CHARS = 200
MAX_TERMS = 16
# Half of all words begin with some letter.
MIN_PREFIX_CHARS = 2

_PIECE = re.compile(r'"(?P<phrase>[^"]*)(?:"|$)|(?P<word>[^\s"]+)')
_QUOTES = str.maketrans(dict.fromkeys("“”„‟«»", '"'))


@dataclass(frozen=True, slots=True)
class Term:
    """Words that stand next to each other in what is found; with `prefix` the last one may be longer there."""

    words: tuple[str, ...]
    prefix: bool = False


def terms_of(text: str) -> tuple[Term, ...]:
    """All of them must be found: what stands in quotes, and each word outside; the last of those may be a beginning.

    A word with signs in it, such as an address or the name of a tool, is a phrase of its parts.
    """
    pieces = list(_PIECE.finditer(text[:MAX_CHARS].translate(_QUOTES)))
    terms = []
    for piece in pieces[:MAX_TERMS]:
        quoted = piece["phrase"] is not None
        if words := tuple(words_of(piece["phrase"] if quoted else piece["word"])):
            may_go_on = not quoted and piece is pieces[-1] and len(words[-1]) >= MIN_PREFIX_CHARS
            terms.append(Term(words, prefix=may_go_on))
    return tuple(terms)
