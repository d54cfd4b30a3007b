"""What a shell would make of a line: enough to tell one plain command from all else, erring to the careful side."""

from __future__ import annotations

import re
import shlex

# Operators, redirections, substitutions, expansions, escapes and comments. Quotes don't save them: whoever reads a
# pattern should not have to think about quoting.
SPECIAL = frozenset(";&|<>()`$\\{}[]*?~!#^")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_BETWEEN_COMMANDS = re.compile(r"[;&|\n\r()`{}]+|\$\(")


def is_plain(line: str) -> bool:
    """Whether a shell runs exactly the words of `line` as one command: no operator, substitution or expansion, no
    variable set before it, and nothing that can't be seen."""
    if not line.strip() or any(character in SPECIAL for character in line):
        return False
    if not line.isascii() or not line.isprintable():
        return False
    try:
        words = shlex.split(line)
    except ValueError:
        return False
    return bool(words) and not _ASSIGNMENT.match(words[0])


def commands_in(line: str) -> list[str]:
    """The line itself and each piece of it that may be a command of its own, so that a rule can find what stands
    behind an operator."""
    pieces = (piece.strip() for piece in _BETWEEN_COMMANDS.split(line))
    return list(dict.fromkeys([line.strip(), *filter(None, pieces)]))
