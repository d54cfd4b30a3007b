"""Changes the texts inside decoded JSON values."""

from __future__ import annotations

import re
from collections.abc import Callable

from llmcore.messages import JSON

REPLACEMENT = "\ufffd"

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

# Takes a text and the name it is the value of ("" where it has none), and gives the text to put there.
Change = Callable[[str, str], str]


def texts_of(value: JSON) -> list[str]:
    """All texts in `value`, dict keys too, in no order."""
    texts: list[str] = []
    stack: list[JSON] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            texts.append(item)
        elif isinstance(item, dict):
            stack.extend(item)
            stack.extend(item.values())
        elif isinstance(item, list | tuple):
            stack.extend(item)
    return texts


def storable(value: JSON) -> JSON:
    """`value` as PostgreSQL's text and jsonb take it: NUL and lone surrogates become U+FFFD, in keys too.

    Works on decoded values, so a text that spells out `\\u0000` stays. A clean value is returned as it is.
    """
    return change_texts(value, _storable_text)


def _storable_text(text: str, name: str) -> str:
    if text.isascii() and "\0" not in text:
        return text
    return _UNSTORABLE.sub(REPLACEMENT, text)


def change_texts(value: JSON, change: Change) -> JSON:
    """`value` with each text in it changed, dict keys too; the same object where nothing changes.

    Without recursion: what models and tools send can be nested deeper than the stack.
    """
    if isinstance(value, str):
        return change(value, "")
    return _changed_copy(value, change) if _would_change(value, change) else value


def _would_change(value: JSON, change: Change) -> bool:
    stack: list[tuple[JSON, str]] = [(value, "")]
    while stack:
        item, name = stack.pop()
        if isinstance(item, str):
            if change(item, name) != item:
                return True
        elif isinstance(item, dict):
            stack.extend((inner, key) for key, inner in item.items())
            stack.extend((key, "") for key in item)
        elif isinstance(item, list | tuple):
            stack.extend((inner, name) for inner in item)
    return False


def _changed_copy(value: JSON, change: Change) -> JSON:
    root: list[JSON] = [value]
    stack: list[tuple[JSON, JSON, str]] = [(root, 0, "")]
    while stack:
        container, place, name = stack.pop()
        item = container[place]
        if isinstance(item, str):
            container[place] = change(item, name)
        elif isinstance(item, dict):
            copy: dict[JSON, JSON] = {}
            for key, inner in item.items():
                new_key = _free_key(change(key, "") if isinstance(key, str) else key, copy)
                copy[new_key] = inner
                stack.append((copy, new_key, key))
            container[place] = copy
        elif isinstance(item, list | tuple):
            container[place] = copied = list(item)
            stack.extend((copied, index, name) for index in range(len(copied)))
    return root[0]


def _free_key(key: JSON, taken: dict[JSON, JSON]) -> JSON:
    """Two keys that differ only in what was replaced must not become one."""
    while key in taken:
        key += REPLACEMENT
    return key
