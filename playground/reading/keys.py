"""The keys of each page, as its dialog lists them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """Keys that do related things, and what they do."""

    keys: tuple[str, ...]
    does: str


ALL = Key(("?",), "this list")

KEYS: dict[str, tuple[Key, ...]] = {
    "run": (
        Key(("j", "k"), "next, previous step"),
        Key(("↑", "↓"), "the same, in the list"),
        Key(("←", "→"), "close, open a round (in the list)"),
        Key(("[", "]"), "previous, next tab"),
        Key(("e",), "next error"),
        Key(("/",), "filter steps"),
        Key(("s",), "search in this run"),
        Key(("n", "N"), "next, previous hit"),
        Key(("f",), "fork from this step"),
        Key(("g",), "final answer"),
        Key(("Alt A", "Alt R"), "approve, deny what waits"),
        ALL,
    ),
    "runs": (Key(("/",), "search"), ALL),
    "form": (Key(("Ctrl ↵",), "run"), ALL),
}
