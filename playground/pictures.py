"""Pictures in what is stored of a run. Nothing can look for secrets in them, so where texts are masked they go."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Collection

from llmcore.messages import JSON
from llmcore.redaction.values import change_texts
from llmcore.structured.media import IMAGE_TYPES, media_type_of
from playground.numbers import data_size

# Of base64: as many bytes as tell what a picture is.
_BEGINNING = 16


def pictures_in(value: JSON) -> frozenset[str]:
    """The pictures in a JSON value, as base64: parts of messages, and what was given for inputs."""
    found: set[str] = set()
    stack: list[JSON] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            data = item.get("data")
            if data and isinstance(data, str) and str(item.get("media_type")).startswith("image/"):
                found.add(data)
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return frozenset(found)


def without_pictures(value: JSON, pictures: Collection[str]) -> JSON:
    """The value with these pictures taken out of all its texts, such as the exact body of a request."""

    def taken_out(text: str, name: str) -> str:
        for picture in pictures:
            text = text.replace(picture, "")
        return text

    return change_texts(value, taken_out) if pictures else value


def picture_label(media_type: str | None, data: str | None) -> str:
    """What a page says of a picture in words: PNG picture, 1.3 kB."""
    size = len(data or "") * 3 // 4 - (data or "").count("=")
    return f"{_kind(media_type)}, {data_size(size) if size else 'not kept'}"


def _kind(media_type: str | None) -> str:
    if media_type in IMAGE_TYPES:
        return f"{media_type.removeprefix('image/').upper()} picture"
    return f"picture of type {media_type}" if media_type else "picture"


def type_of_picture(media_type: str | None, data: str | None) -> str:
    """The media type of base64 `data` that are the picture they are said to be, of a type that is taken; else
    empty. Only the beginning is looked at."""
    try:
        told = media_type_of(b64decode((data or "")[:_BEGINNING], validate=True))
    except NotBase64:
        return ""
    return told if told == media_type and told in IMAGE_TYPES else ""
