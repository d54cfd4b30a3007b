"""Estimates of token counts, where no provider has counted yet.

Each model family has its own tokenizer, so these are estimates: they aim between the byte-pair encodings cl100k and
o200k, within some ten percent for prose, Markdown, JSON and code, within a quarter for other scripts and for random
text such as keys. What a provider reports always takes their place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import cache

from llmcore.messages import Message, Part, ToolSpec


class Share(StrEnum):
    """What takes tokens of a request. Where the sources of the prompt are not known, system messages are counted as
    the configuration's, and user messages as the user's."""

    TOOLDEF = "tooldef"
    CONFIG = "config"
    OVERRIDE = "override"
    SNIPPET = "snippet"
    SKILL = "skill"
    USER = "user"
    ASSISTANT = "assistant"
    THINKING = "thinking"
    ARGUMENTS = "arguments"
    TOOL = "tool"
    FRAME = "frame"


_SHARE_OF_ROLE = {
    "system": Share.CONFIG,
    "user": Share.USER,
    "assistant": Share.ASSISTANT,
    "tool": Share.TOOL,
}

# Each match is one token. Words split at changes of case and take one mark or blank before them along, as the
# encodings do; digits go in threes; punctuation takes the line break after it along.
_LATIN = re.compile(
    r"[ \t._(/\-\"'#<]?[A-Z]?[a-z]{1,9}"
    r"|[^\S\n]+(?=[^\S\n])|[-=*_.#~ ]{3,16}"
    r"| ?[!-/:-@\[-`{-~]{1,3}\n*"
    r"|\d{1,3}"
    r"|\s*\n+"
    r"|[ \t._(/\-\"'#<]?[A-Z]{1,3}"
    r"|[\u00c0-\u024f]{1,2}|[\u1e00-\u1eff][a-z]{0,2}"
    r"|.",
    re.DOTALL,
)

# Characters per token, blanks between words included. Measured on translations of Django's own texts.
_SCRIPTS: tuple[tuple[str, float], ...] = (
    (r"\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff", 1.2),  # Han
    (r"\u3040-\u30ff", 1.4),  # Hiragana, Katakana
    (r"\uac00-\ud7af\u1100-\u11ff", 1.5),  # Hangul
    (r"\u0370-\u03ff", 1.7),  # Greek
    (r"\u0400-\u052f", 2.5),  # Cyrillic
    (r"\u0590-\u08ff", 1.8),  # Hebrew, Arabic
    (r"\u0900-\u109f", 1.6),  # the scripts of India, Thai, Lao, Burmese
    (r"\U0001f000-\U0001ffff\ufe0f\u200d", 0.6),  # emoji
)

_BYTES_PER_TOKEN = 4
# Longer texts are estimated from evenly spread pieces; the time then no longer grows with the length.
_LONGEST_COUNTED = 250_000
_PIECES = 32
_PIECE_CHARS = 4_000
_ROUGH_PIECES = 8
_ROUGH_PIECE_CHARS = 150

# What the wire formats put around each message and tool (role, separators, names). Source: OpenAI's cookbook for
# Chat Completions; others are near it.
_TOKENS_PER_MESSAGE = 4
_TOKENS_PER_CALL = 6
_TOKENS_PER_TOOL = 8

# Providers count images by their size in pixels, which takes decoding to know; this is a picture of about a megapixel.
TOKENS_PER_IMAGE = 1_000


def estimate_tokens(text: str) -> int:
    """About how many tokens `text` is: 0 only for the empty text."""
    if not text:
        return 0
    if len(text) <= _LONGEST_COUNTED:
        return max(round(_count(text)), 1)
    return _sampled(text, _PIECES, _PIECE_CHARS)


def estimate_size(size: int) -> int:
    """About how many tokens a text of `size` bytes is that isn't at hand."""
    return -(-size // _BYTES_PER_TOKEN)


def estimate_roughly(text: str) -> int:
    """As `estimate_tokens`, but in no time for any length: for figures that each round of a run is to have."""
    if len(text) <= 2 * _ROUGH_PIECES * _ROUGH_PIECE_CHARS:
        return estimate_tokens(text)
    return _sampled(text, _ROUGH_PIECES, _ROUGH_PIECE_CHARS)


def _sampled(text: str, pieces: int, piece_chars: int) -> int:
    step = len(text) // pieces
    sampled = sum(_count(text[start : start + piece_chars]) for start in range(0, step * pieces, step))
    return round(sampled * len(text) / (pieces * piece_chars))


def _count(text: str) -> float:
    tokens = 0.0
    # Most texts that aren't ASCII have no more than a dash or a sign of a currency.
    if not text.isascii() and _any_script().search(text):
        for script, chars_per_token in _scripts():
            rest = script.sub("", text)
            tokens += (len(text) - len(rest)) / chars_per_token
            text = rest
    return tokens + len(_LATIN.findall(text))


@cache
def _any_script() -> re.Pattern[str]:
    return re.compile("[" + "".join(ranges for ranges, _chars in _SCRIPTS) + "]")


@cache
def _scripts() -> list[tuple[re.Pattern[str], float]]:
    return [(re.compile(f"(?: ?[{ranges}]+)+"), chars) for ranges, chars in _SCRIPTS]


def message_shares(message: Message, estimate: Callable[[str], int] = estimate_tokens) -> dict[Share, int]:
    """About how many tokens `message` takes in a request, by what they are: its text, its calls, its frame."""
    shares = {Share.FRAME: _TOKENS_PER_MESSAGE}
    for part in message.parts:
        share = Share.THINKING if part.kind == "thinking" else _SHARE_OF_ROLE[message.role]
        shares[share] = shares.get(share, 0) + _estimate_part(part, estimate)
    for call in message.tool_calls:
        arguments = call.arguments_raw if call.arguments is None else _json(call.arguments)
        tokens = _TOKENS_PER_CALL + estimate(call.name) + estimate(arguments or "")
        shares[Share.ARGUMENTS] = shares.get(Share.ARGUMENTS, 0) + tokens
    return shares


def estimate_message(message: Message, estimate: Callable[[str], int] = estimate_tokens) -> int:
    """About how many tokens `message` takes in a request, with its calls and its frame."""
    return sum(message_shares(message, estimate).values())


def apportioned(shares: Mapping[Share, int], total: int) -> dict[Share, int]:
    """Whole numbers in the proportion of `shares` that add up to exactly `total` (largest remainder)."""
    whole = sum(shares.values())
    if whole in (0, total):
        return dict(shares)
    parts = {share: tokens * total // whole for share, tokens in shares.items()}
    by_remainder = sorted(shares, key=lambda share: -(shares[share] * total % whole))
    for share in by_remainder[: total - sum(parts.values())]:
        parts[share] += 1
    return parts


def _estimate_part(part: Part, estimate: Callable[[str], int]) -> int:
    if part.kind == "image":
        return TOKENS_PER_IMAGE
    # A provider's own block is sent back as it came; its text, where it has one, is in there too.
    if part.kind == "provider":
        return estimate(_json(part.extra))
    return estimate(part.text)


def estimate_tools(specs: Iterable[ToolSpec], estimate: Callable[[str], int] = estimate_tokens) -> int:
    """About how many tokens the definitions of the tools take in a request."""
    return sum(_TOKENS_PER_TOOL + estimate(_json(spec.to_json())) for spec in specs)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
