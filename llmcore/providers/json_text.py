"""JSON as it travels: tolerant where models and servers are careless, strict where a value can't be sent or stored."""

from __future__ import annotations

import json
import math
import re

from llmcore.messages import JSON

# Deeper nesting could be read here, but not written again further down the stack.
MAX_DEPTH = 100
# Many models put their JSON into a Markdown fence; what is between is taken as it stands.
_FENCED = re.compile(r"\s*```(?:json|JSON)?[ \t]*\r?\n(?P<json>.*?)\r?\n?```\s*", re.DOTALL)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is out of range")
    return value


# Control characters inside strings are allowed: models write them unescaped.
_decoder = json.JSONDecoder(strict=False, parse_constant=_refuse_constant, parse_float=_finite)
_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def decode_json(text: str | bytes) -> JSON:
    """The decoded value; ValueError for anything that is not JSON, NaN, infinity and bottomless nesting included."""
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig", "replace")
    try:
        value = _decoder.decode(text)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and _too_deep(value):
        raise ValueError("the JSON is nested too deeply")
    return value


def _too_deep(value: JSON) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        children: list[JSON] = []
        for item in level:
            if isinstance(item, dict):
                children.extend(item.values())
            elif isinstance(item, list):
                children.extend(item)
        if not children:
            return False
        level = children
    return True


def unfenced(answer: str) -> tuple[str, bool]:
    """The answer without a Markdown fence that is around the whole of it, and whether there was one."""
    match = _FENCED.fullmatch(answer) if "```" in answer[:100] else None
    return (match["json"], True) if match else (answer, False)


def encode_json(value: JSON) -> bytes:
    """Compact UTF-8. A lone surrogate, which no server accepts, becomes U+FFFD."""
    text = _encoder.encode(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return mend_surrogates(text).encode()


def mend_surrogates(text: str) -> str:
    """`text` with surrogate pairs joined to the characters they mean and lone surrogates replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def mend_values(value: JSON) -> JSON:
    """`mend_surrogates` for every string in a decoded value, keys too."""
    if isinstance(value, str):
        return mend_surrogates(value)
    if isinstance(value, dict):
        return {mend_surrogates(key): mend_values(item) for key, item in value.items()}
    if isinstance(value, list):
        return [mend_values(item) for item in value]
    return value
