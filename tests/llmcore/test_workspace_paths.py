"""Paths as a model names them, and the patterns of paths that are written freely."""

from __future__ import annotations

import time

import pytest

from llmcore.errors import ToolError
from llmcore.tools.workspace.paths import matches, parts_of


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("notes/today.md", ("notes", "today.md")),
        ("./notes//./today.md", ("notes", "today.md")),
        (".", ()),
        ("", ()),
        ("a b/ü.txt", ("a b", "ü.txt")),
        ("...", ("...",)),
        ("..a/b..", ("..a", "b..")),
        ("a\\..\\b", ("a\\..\\b",)),
        ("~/x", ("~", "x")),
    ],
)
def test_a_path_is_taken_apart_into_names(path: str, parts: tuple[str, ...]) -> None:
    assert parts_of(path) == parts


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("..", "leads out"),
        ("scratch/../X", "leads out"),
        ("a/b/../../../etc/passwd", "leads out"),
        ("./../x", "leads out"),
        ("/etc/passwd", "absolute"),
        ("//etc/passwd", "absolute"),
        ("a\0b", "characters"),
        ("a\nb", "characters"),
        ("a\ud800b", "characters"),
        ("x" * 256, "longer than 255"),
        ("ü" * 128, "longer than 255"),
        ("a/" * 500, "parts"),
        ("a" * 1_001, "1,001 characters"),
    ],
)
def test_a_path_that_could_lead_elsewhere_is_refused(path: str, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        parts_of(path)  # K3


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*.md", "notes/today.md", True),
        ("*.md", "notes/today.txt", False),
        ("notes/*.md", "notes/today.md", True),
        ("notes/*.md", "notes/old/today.md", False),
        ("notes/**", "notes/old/today.md", True),
        ("notes/**", "notes", True),
        ("notes/**", "notesx/today.md", False),
        ("notes/**/*.md", "notes/today.md", True),
        ("**/logs/*.log", "a/b/logs/x.log", True),
        ("**", "a/b", True),
        ("**", ".git/hooks/pre-commit", False),
        ("*", ".env", False),
        ("notes/**", "notes/.git/config", False),
        (".env", ".env", True),
        ("Notes/**", "notes/a", False),
        ("a/[bc].txt", "a/b.txt", True),
    ],
)
def test_patterns_match_as_in_a_shell(pattern: str, path: str, fits: bool) -> None:
    assert matches(pattern, parts_of(path)) is fits  # K4


def test_no_pattern_takes_long() -> None:
    started = time.thread_time()
    assert not matches("/".join(["**", "a"] * 16), ("a",) * 30 + ("b",))
    assert not matches("*a" * 90, ("a" * 250 + "b",))
    assert time.thread_time() - started < 1
