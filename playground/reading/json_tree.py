"""JSON values as trees of bounded size: what doesn't fit is fetched when it is opened."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from playground.reading.boxes import Number, shown

MAX_LINES = 2_000
CHUNK = 100
LONG_STRING = 2_000
LINE_CHARS = 100
STRING_CHUNK = 50_000
OPEN_DEPTH = 3
MAX_DEPTH = 30
# A part that is further away has no button: each of them would carry the whole way to it.
MAX_POINTER = 500


class JsonTree:
    """Renders one value, or a part of it, spending at most `MAX_LINES` lines. `url` is where the rest is fetched."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._left = MAX_LINES

    def value(self, value: Any, pointer: str = "", depth: int = 0) -> SafeString:
        """The value at `pointer`, with all that fits below it."""
        return mark_safe("".join(self._value(value, pointer, depth)))

    def rest(self, value: Any, pointer: str, offset: int) -> SafeString:
        """What follows `offset` in the object, array or long string at `pointer`; LookupError where it is none."""
        if isinstance(value, str):
            return mark_safe("".join(self._string_rest(value, pointer, offset)))
        if not isinstance(value, dict | list):
            raise LookupError(pointer)
        return mark_safe("".join(self._items(value, pointer, OPEN_DEPTH, offset)))

    def _value(self, value: Any, pointer: str, depth: int, before: str = "", after: str = "") -> Iterator[str]:
        """The value between `before` (its key) and `after` (its comma): a container takes both into its own lines."""
        if isinstance(value, (dict, list)):
            yield from self._container(value, pointer, depth, before, after)
        else:
            yield before
            yield from self._scalar(value, pointer)
            yield after

    def _scalar(self, value: Any, pointer: str) -> Iterator[str]:
        if isinstance(value, Number):
            yield f'<span class="j-n">{escape(value)}</span>'
        elif isinstance(value, str):
            yield from self._string(value, pointer)
        elif value is None or isinstance(value, bool):
            yield f'<span class="j-l">{json.dumps(value)}</span>'
        else:
            yield f'<span class="j-n">{escape(json.dumps(value))}</span>'

    def _container(
        self, value: dict[str, Any] | list[Any], pointer: str, depth: int, before: str, after: str
    ) -> Iterator[str]:
        opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
        unit = ("key" if isinstance(value, dict) else "item") + ("" if len(value) == 1 else "s")
        if not value:
            yield f'{before}<span class="j-p">{opening}{closing}</span>{after}'
        elif self._left <= 0 or depth >= MAX_DEPTH:
            label = f"{opening} {len(value):,} {unit} {closing}"
            yield before + self._button(label, target="this", pointer=pointer) + after
        else:
            state = " open" if depth < OPEN_DEPTH else ""
            yield (
                f'<details{state}><summary>{before}<span class="j-p">{opening}</span>'
                f'<span class="cnt"> {len(value):,} {unit} {closing}</span></summary><ul>'
            )
            yield from self._items(value, pointer, depth + 1, 0)
            yield f'</ul><span class="j-p">{closing}</span>{after}</details>'

    def _items(self, value: dict[str, Any] | list[Any], pointer: str, depth: int, offset: int) -> Iterator[str]:
        entries = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
        shown_until = min(offset + CHUNK, len(entries))
        for index in range(offset, shown_until):
            if self._left <= 0:
                shown_until = index
                break
            self._left -= 1
            key, item = entries[index]
            is_keyed = isinstance(value, dict)
            before = f'<span class="j-k">{_key(str(key))}</span><span class="j-p">: </span>' if is_keyed else ""
            after = '<span class="j-p">,</span>' if index < len(entries) - 1 else ""
            yield "<li>"
            yield from self._value(item, f"{pointer}/{_token(str(key))}", depth, before, after)
            yield "</li>"
        left = len(entries) - shown_until
        if left > 0:
            count = f"Show {CHUNK} of {left:,} more" if left > CHUNK else f"Show {left} more"
            yield f"<li>{self._button(count, target='closest li', pointer=pointer, offset=shown_until)}</li>"

    def _string(self, value: str, pointer: str) -> Iterator[str]:
        if len(value) <= LONG_STRING:
            yield f'<span class="j-s">{_quoted(value)}</span>'
            return
        # Long strings take the lines that they fill on the page, so that many of them don't make it huge.
        self._left -= LONG_STRING // LINE_CHARS
        yield f'<span class="j-s">{_quoted(value[:LONG_STRING])[:-6]}</span>'
        yield self._more_text(value, pointer, LONG_STRING)

    def _string_rest(self, value: str, pointer: str, offset: int) -> Iterator[str]:
        end = offset + STRING_CHUNK
        yield f'<span class="j-s">{_quoted(value[offset:end])[6:-6]}</span>'
        if end < len(value):
            yield self._more_text(value, pointer, end)
        else:
            yield '<span class="j-s">&quot;</span>'

    def _more_text(self, value: str, pointer: str, offset: int) -> str:
        label = f"… {len(value) - offset:,} more characters"
        return self._button(label, target="this", pointer=pointer, offset=offset)

    def _button(self, label: str, *, target: str, **query: Any) -> str:
        if len(query["pointer"]) > MAX_POINTER:
            return f'<span class="cnt">{escape(label)}</span>'
        url = escape(f"{self._url}&{urlencode(query)}")
        return (
            f'<button type="button" class="pg-more" hx-get="{url}" hx-target="{target}" hx-swap="outerHTML">'
            f"{escape(label)}</button>"
        )


def find(value: Any, pointer: str) -> Any:
    """The value at a JSON pointer; LookupError where there is none."""
    for token in pointer.split("/")[1:]:
        token = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value[token]
        elif isinstance(value, list) and token.isdecimal() and len(token) < 10:
            value = value[int(token)]
        else:
            raise LookupError(pointer)
    return value


def _quoted(text: str) -> str:
    """JSON spelling, escaped; the quotes at both ends are `&quot;`."""
    return escape(json.dumps(shown(text), ensure_ascii=False))


def _key(key: str) -> str:
    return _quoted(key if len(key) <= LONG_STRING else key[:LONG_STRING] + "…")


def _token(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def one_line(value: Any, limit: int = 400) -> SafeString:
    """Arguments on one line, colored, as calls are shown inside messages."""
    if not isinstance(value, dict):
        return mark_safe(f'<span class="j-s">{escape(shown(str(value))[:limit])}</span>')
    parts, used = [], 0
    for key, item in value.items():
        text = json.dumps(item, ensure_ascii=False)
        text = text if len(text) <= limit else text[: limit - 1] + "…"
        used += len(key) + len(text)
        if used > 2 * limit:
            parts.append('<span class="j-p">…</span>')
            break
        css = "s" if isinstance(item, str) else "l" if item is None or isinstance(item, bool) else "n"
        parts.append(
            f'<span class="j-k">{escape(shown(key[:limit]))}</span><span class="j-p">: </span>'
            f'<span class="j-{css if not isinstance(item, (dict, list)) else "p"}">{escape(shown(text))}</span>'
        )
    inner = '<span class="j-p">, </span>'.join(parts)
    return mark_safe(f'<span class="j-p">{{ </span>{inner}<span class="j-p"> }}</span>' if parts else "{ }")
