"""What a proposed action would do, as a decider reads it: nothing hidden, nothing cut off unsaid."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from llmcore.tools.base import Action, ActionKind
from llmcore.tools.unseen import visible
from playground.numbers import plural
from playground.reading.boxes import pretty
from playground.reading.visible import foreign

MAX_TEXT_CHARS = 20_000
MAX_WORDS_CHARS = 1_000
MAX_DIFF_LINES = 2_000
MAX_LINE_CHARS = 2_000
# From so many lines on the reader is told how many there are before they see the first one.
MANY_LINES = 4
WANTS = {
    ActionKind.COMMAND: "wants to run a command",
    ActionKind.FILE_CHANGE: "wants to change a file",
    ActionKind.CALL: "wants to be called",
}
# Long empty stretches push what follows them out of sight.
EMPTY_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*){3,}\n")
SPACES = re.compile(r"[ \t]{24,}")


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a unified difference; `trailing` are the spaces at its end. Without a sign it says where it is, or
    something about the whole."""

    sign: str
    text: str
    trailing: str = ""

    @property
    def css(self) -> str:
        return {"+": "add", "-": "del", "": "at"}.get(self.sign, "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Described:
    """What a call would do, in the words and lines that are shown; `gone` where that is no longer stored.

    `is_new` says that there is no such file yet, `foreign` names characters that may look like others, `measured` says
    how much there is, and `left_out` what isn't shown of it. `exact` says that the command is shown as it is.
    """

    title: str = ""
    wants: str = ""
    command: str = ""
    exact: bool = False
    shell: bool = False
    path: str = ""
    is_new: bool = False
    directory: str = ""
    timeout_s: float | None = None
    diff: tuple[DiffLine, ...] = ()
    arguments: str = ""
    why: str = ""
    foreign: str = ""
    measured: str = ""
    left_out: str = ""
    repeatable: bool = False
    gone: bool = False


def describe(content: Mapping[str, Any] | None) -> Described:
    """`content` is what the step that proposed the action keeps of it."""
    if not content:
        return Described(gone=True, wants=WANTS[ActionKind.CALL])
    action = Action.from_json(content["action"])
    arguments, left_out = _bounded(pretty(content.get("arguments")))
    common: dict[str, Any] = {
        "title": words(action.title),
        "wants": WANTS[action.kind],
        "directory": visible(action.directory),
        "timeout_s": action.timeout_s,
        "arguments": arguments,
        "why": words(content.get("why") or ""),
        "repeatable": bool(content.get("repeatable")),
        "foreign": foreign([action.command, action.path, action.directory]),
    }
    if action.command:
        command, left_out = _bounded(action.command)
        measured = _lines(action.command)
        exact = command == action.command
        return Described(
            **common, command=command, exact=exact, shell=action.shell, measured=measured, left_out=left_out
        )
    if action.diff:
        is_new = action.before_sha256 is None
        return Described(**common, path=visible(action.path), is_new=is_new, **_difference(action.diff))
    parts = [
        *(["the end of the title"] if len(action.title) > MAX_WORDS_CHARS else []),
        *([left_out] if left_out else []),
    ]
    return Described(**common, left_out=" and ".join(parts))


def words(text: str) -> str:
    """A sentence or title, of whatever length, on one line."""
    line = visible(" ".join(text[: 2 * MAX_WORDS_CHARS].split()))
    return line if len(line) <= MAX_WORDS_CHARS else f"{line[: MAX_WORDS_CHARS - 1]}…"


def _bounded(text: str) -> tuple[str, str]:
    """The text as it is shown, and what isn't shown of it."""
    more = len(text) - MAX_TEXT_CHARS
    return folded(visible(text[:MAX_TEXT_CHARS])), f"the last {plural(more, 'character')}" if more > 0 else ""


def folded(text: str) -> str:
    """`text` with long empty stretches counted in place of shown."""
    text = EMPTY_LINES.sub(lambda found: f"\n⟨{found[0].count(chr(10)) - 1:,} empty lines⟩\n", text)
    return SPACES.sub(lambda found: f"⟨{len(found[0])} spaces⟩", text)


def _lines(text: str) -> str:
    count = text.count("\n") + 1
    return plural(count, "line") if count >= MANY_LINES else ""


def _difference(diff: str) -> dict[str, Any]:
    lines = diff.removesuffix("\n").split("\n")
    kept = [_cut(line) for line in read_diff(lines[:MAX_DIFF_LINES])]
    signs = [line[:1] for line in _body(lines)]
    more = [plural(len(lines) - MAX_DIFF_LINES, "line")] if len(lines) > MAX_DIFF_LINES else []
    if long := sum(len(line) > MAX_LINE_CHARS for line in lines[:MAX_DIFF_LINES]):
        more.append(f"the ends of {plural(long, 'long line')}")
    return {
        "diff": tuple(kept),
        "measured": f"+{signs.count('+'):,} −{signs.count('-'):,} lines",
        "left_out": " and ".join(more),
    }


def read_diff(lines: Iterable[str]) -> Iterable[DiffLine]:
    """The lines of a unified difference. Only what stands below an `@@` is a line of the file, with its sign."""
    in_file = False
    for line in lines:
        if line.startswith("@@"):
            in_file = True
            yield DiffLine("", line)
        elif not in_file:
            # The names of the files stand above the difference already.
            if not line.startswith(("--- ", "+++ ")):
                yield DiffLine("", line)
        elif line.startswith("\\"):
            yield DiffLine("", line[2:])
        else:
            yield DiffLine(line[:1], line[1:])


def _body(lines: list[str]) -> list[str]:
    """The lines of the file among those of a difference."""
    start = next((place for place, line in enumerate(lines) if line.startswith("@@")), len(lines))
    return [line for line in lines[start:] if not line.startswith("@@")]


def _cut(line: DiffLine) -> DiffLine:
    text, more = line.text[:MAX_LINE_CHARS], len(line.text) - MAX_LINE_CHARS
    trailing = "" if more > 0 or not line.sign else text[len(text.rstrip(" \t")) :]
    text = SPACES.sub(lambda spaces: f"⟨{len(spaces[0])} spaces⟩", visible(text[: len(text) - len(trailing)]))
    return DiffLine(line.sign, f"{text} ⟨{more:,} characters more⟩" if more > 0 else text, trailing)


def summary_of(described: Described) -> str:
    """What it would do, on one line."""
    text = " ".join((described.command or described.title or described.arguments).split())
    return text if len(text) <= 200 else f"{text[:199]}…"
