"""Puts together the reasoning details of OpenRouter, which go back unchanged: the services behind it sign them."""

from __future__ import annotations

from collections.abc import Iterator

from llmcore.messages import JSON

# The fields that arrive in pieces; of all others the last value counts.
GROWING = frozenset({"text", "summary", "data"})
# What passes for readable thinking.
READABLE = ("text", "summary")
MAX_DETAILS = 5_000


class ReasoningDetails:
    """The entries, whole or streamed in pieces that belong together by their index; without one, a piece goes on with
    the last entry of its type."""

    def __init__(self) -> None:
        self._items: list[dict[str, JSON]] = []
        self._by_index: dict[int, dict[str, JSON]] = {}

    def __bool__(self) -> bool:
        return bool(self._items)

    @property
    def items(self) -> list[dict[str, JSON]]:
        return [{name: _joined(value) for name, value in item.items()} for item in self._items]

    def add(self, pieces: JSON) -> str:
        """Take what one message or delta holds, and return the readable thinking in it."""
        # Entries that stand beside each other are different ones.
        last = self._items[-1] if self._items else None
        return "".join(self._add(piece, last) for piece in _objects(pieces))

    def _add(self, piece: dict[str, JSON], last: dict[str, JSON] | None) -> str:
        index = piece.get("index")
        known = self._by_index.get(index) if isinstance(index, int) else last if goes_on(last, piece) else None
        if known is None or (known.get("type") or piece.get("type")) != (piece.get("type") or known.get("type")):
            if len(self._items) >= MAX_DETAILS:
                return ""
            known = {}
            self._items.append(known)
            if isinstance(index, int):
                self._by_index[index] = known
        for name, value in piece.items():
            if name in GROWING and isinstance(value, str):
                known[name] = _grown(known.get(name), value)
            elif value is not None or name not in known:
                known[name] = value
        return next((text for name in READABLE if isinstance(text := piece.get(name), str)), "")


def goes_on(last: dict[str, JSON] | None, piece: dict[str, JSON]) -> bool:
    """Whether a piece without an index belongs to the entry before it: a signed or encrypted one is whole."""
    if last is None or "signature" in last or "data" in last or "data" in piece:
        return False
    return piece.get("id") in (None, last.get("id"))


class _Pieces(list[str]):
    """A text that is still growing."""


def _grown(earlier: JSON, piece: str) -> _Pieces:
    pieces = earlier if isinstance(earlier, _Pieces) else _Pieces()
    pieces.append(piece)
    return pieces


def _joined(value: JSON) -> JSON:
    return "".join(value) if isinstance(value, _Pieces) else value


def _objects(pieces: JSON) -> Iterator[dict[str, JSON]]:
    for piece in pieces if isinstance(pieces, list) else ():
        if isinstance(piece, dict):
            yield piece
