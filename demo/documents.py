"""Reads the Markdown files of the demo: policies, prompts, skills and snippets, the latter two with front matter."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

CONTENT = Path(__file__).parent / "content"
HEADING = re.compile(r"^#{2,6} (?P<number>[\d.]+) ")

Kind = Literal["policies", "prompts", "skills", "snippets"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One file: its name without the ending, its front matter, and the text after it."""

    slug: str
    front: dict[str, str]
    body: str

    @property
    def name(self) -> str:
        return self.front.get("name", self.slug)

    @property
    def title(self) -> str:
        return self.body.splitlines()[0].removeprefix("# ")

    def words(self, key: str) -> list[str]:
        """A comma-separated entry of the front matter."""
        return [word.strip() for word in self.front.get(key, "").split(",") if word.strip()]

    def section(self, number: str) -> str | None:
        """The section "3.2" with its subsections; `None` if there is no such section."""
        found: list[str] = []
        for line in self.body.splitlines():
            heading = HEADING.match(line)
            if heading and found and not f"{heading['number']}.".startswith(f"{number}."):
                break
            if found or (heading and heading["number"] == number):
                found.append(line)
        return "\n".join(found).strip() or None

    @property
    def sections(self) -> list[str]:
        headings = (HEADING.match(line) for line in self.body.splitlines())
        return [heading["number"] for heading in headings if heading]


@cache
def documents(kind: Kind) -> dict[str, Document]:
    """All documents of a kind by slug, in the order of their names."""
    return {path.stem: read(path) for path in sorted((CONTENT / kind).glob("*.md"))}


def read(path: Path) -> Document:
    text = path.read_text(encoding="utf-8")
    front: dict[str, str] = {}
    if text.startswith("---\n"):
        head, _, text = text.removeprefix("---\n").partition("\n---\n")
        front = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in head.splitlines())}
    return Document(slug=path.stem, front=front, body=text.strip() + "\n")
