"""Finds known secret values in texts and bytes, however they are written down."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from typing import TypeVar
from urllib.parse import quote, quote_plus

# Shorter values are words rather than secrets; masking them would make texts unreadable.
MIN_LENGTH = 7
# What people enter where a server wants no key, and defaults that everybody knows. Source: those servers' manuals.
PLACEHOLDERS = frozenset(
    {
        "changeme",
        "development",
        "lm-studio",
        "no-key-needed",
        "no-key-required",
        "not-needed",
        "password",
        "placeholder",
        "postgres",
        "sk-no-key-required",
    }
)
_MIN_BASE64 = 10
# A shorter piece of a secret may be a word.
_MIN_PART = 12
_RANDOM = re.compile(r"[0-9]|[a-z][A-Z]")

Text = TypeVar("Text", str, bytes)


def forms_of(secret: str) -> set[str]:
    """The ways `secret` may be spelled: as it is, URL-encoded, escaped for JSON, Python and HTML, in base64; each as
    the two halves that it can be known by where a limit has cut it short."""
    if len(secret) < MIN_LENGTH or secret.lower() in PLACEHOLDERS:
        return set()
    encodable = secret.encode("utf-8", "surrogateescape")
    escaped = {json.dumps(secret, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    forms = {secret, repr(secret)[1:-1], html.escape(secret)} | escaped
    # A body inside a body is escaped twice; some encoders escape the slash as well.
    forms |= {json.dumps(form, ensure_ascii=False)[1:-1] for form in escaped}
    forms |= {form.replace("/", "\\/") for form in escaped}
    # As Go writes JSON, and with it many servers.
    forms |= {re.sub("[&<>]", lambda match: f"\\u{ord(match[0]):04x}", form) for form in escaped}
    for encoded in (quote(encodable, safe=""), quote(encodable), quote_plus(encodable)):
        forms |= {encoded, re.sub("%..", lambda match: match[0].lower(), encoded)}
    forms |= set(_base64_forms(encodable))
    # Paths and addresses, which some settings named like secrets hold, have beginnings that mean nothing by themselves.
    if secret[0] in "/~." or "://" in secret:
        return forms
    return {part for form in forms for part in _halves(form)}


def _halves(form: str) -> tuple[str, ...]:
    """The halves of `form`, which cover it, or `form` itself where one of them would not stand for it alone."""
    size = max(-(-len(form) // 2), _MIN_PART)
    halves = form[:size], form[-size:]
    return halves if size < len(form) and all(_RANDOM.search(half) for half in halves) else (form,)


def _base64_forms(secret: bytes) -> Iterator[str]:
    """What of `secret` is sure to show in base64 of a longer value, for each of the three places it may begin at."""
    for offset in range(3):
        first = -(-8 * offset // 6)
        last = 8 * (offset + len(secret)) // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            form = encode(b"\0" * offset + secret).decode()[first:last]
            if len(form) >= _MIN_BASE64:
                yield form


def spans_of(forms: Iterable[Text], text: Text) -> list[tuple[int, int]]:
    """Where the forms stand in `text`, overlapping ones merged, in order."""
    return merged(span for form in forms if form in text for span in _occurrences(form, text))


def merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans in order, those that touch each other as one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _occurrences(form: Text, text: Text) -> Iterator[tuple[int, int]]:
    start = text.find(form)
    while start >= 0:
        yield start, start + len(form)
        start = text.find(form, start + 1)


def masked(text: Text, spans: Iterable[tuple[int, int]], mask: Text) -> Text:
    """`text` with each span replaced by `mask`."""
    pieces: list[Text] = []
    end = 0
    for start, stop in spans:
        pieces += text[end:start], mask
        end = stop
    pieces.append(text[end:])
    return text[:0].join(pieces)
