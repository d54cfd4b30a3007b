"""Reads a page of the documentation as somebody does who follows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "adopting.md"
FENCE = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# ([\w/]+\.py)\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """A block of code: a file of the project, or lines to type (then `file` is empty)."""

    text: str
    file: str = ""

    @property
    def commands(self) -> list[str]:
        return self.text.splitlines()


def samples() -> Iterator[Sample]:
    """All blocks of the page, in its order. A block of Python that names no file is an error of the page."""
    for fence in FENCE.finditer(PAGE.read_text()):
        text = fence["text"]
        match fence["language"]:
            case "sh":
                yield Sample(text=text)
            case "python":
                named = FILE.match(text)
                assert named, f"a sample that doesn't name its file: {text}"
                yield Sample(text=text[named.end() :], file=named[1])
            case language:
                raise AssertionError(f"nobody knows what to do with {language}")
