"""What a change does to a file, as a unified difference that shows everything and takes bounded time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher

CONTEXT = 3
# Comparing takes time by the square of the lines, and looks at each pair of equal ones again and again; beyond these
# the changed part is shown as exchanged whole.
MAX_COMPARED_LINES = 2_000
MAX_EQUAL_PAIRS = 100_000
NO_NEWLINE = "\\ No newline at end of file"

Change = tuple[str, int, int, int, int]


def unified(before: str | None, after: str, path: str) -> str:
    """The difference between two texts of the file at `path`; `None` before where there is no such file.

    Lines end at a line feed only: other separators stay visible in their lines.
    """
    old, new = _lines(before or ""), _lines(after)
    if before is not None and old == new:
        return ""
    head = [f"--- {'/dev/null' if before is None else 'a/' + path}", f"+++ b/{path}"]
    hunks = (line for group in _groups(_changes(old, new)) for line in _hunk(group, old, new))
    return "\n".join([*head, *hunks]) + "\n"


def _lines(text: str) -> list[str]:
    """The lines, each with its line feed if it has one."""
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _changes(old: list[str], new: list[str]) -> list[Change]:
    """What is equal and what isn't, in the form of `SequenceMatcher.get_opcodes`."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    old_end, new_end = len(old) - end, len(new) - end
    old_middle, new_middle = old[start:old_end], new[start:new_end]
    too_long = max(len(old_middle), len(new_middle)) > MAX_COMPARED_LINES
    if too_long or _equal_pairs(old_middle, new_middle) > MAX_EQUAL_PAIRS:
        middle: list[Change] = [("replace", start, old_end, start, new_end)]
    else:
        compared = SequenceMatcher(None, old_middle, new_middle, autojunk=False)
        middle = [(tag, a + start, b + start, c + start, d + start) for tag, a, b, c, d in compared.get_opcodes()]
    head: list[Change] = [("equal", 0, start, 0, start)] if start else []
    tail: list[Change] = [("equal", old_end, len(old), new_end, len(new))] if end else []
    return [*head, *middle, *tail]


def _equal_pairs(old: list[str], new: list[str]) -> int:
    counts = Counter(new)
    return sum(count * counts[line] for line, count in Counter(old).items())


def _groups(changes: list[Change]) -> Iterator[list[Change]]:
    """Changes that are near each other together, with the lines around them."""
    group: list[Change] = []
    for place, (tag, a, b, c, d) in enumerate(changes):
        if tag != "equal":
            group.append((tag, a, b, c, d))
            continue
        first, last = place == 0, place == len(changes) - 1
        if not first and (last or b - a > 2 * CONTEXT):
            group.append((tag, a, min(a + CONTEXT, b), c, min(c + CONTEXT, d)))
            yield group
            group = []
        if not last and (first or b - a > 2 * CONTEXT):
            group.append((tag, max(b - CONTEXT, a), b, max(d - CONTEXT, c), d))
        elif not first and not last:
            group.append((tag, a, b, c, d))
    if any(tag != "equal" for tag, *_ in group):
        yield group


def _hunk(group: list[Change], old: list[str], new: list[str]) -> Iterator[str]:
    yield f"@@ -{_range(group[0][1], group[-1][2])} +{_range(group[0][3], group[-1][4])} @@"
    for tag, a, b, c, d in group:
        if tag == "equal":
            yield from _marked(" ", old[a:b])
        else:
            yield from _marked("-", old[a:b])
            yield from _marked("+", new[c:d])


def _marked(mark: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield mark + line.removesuffix("\n")
        if not line.endswith("\n"):
            yield NO_NEWLINE


def _range(start: int, end: int) -> str:
    length = end - start
    return f"{start + 1 if length else start},{length}"
