"""Names of tools and ids of their calls as the wires allow them."""

from __future__ import annotations

import hashlib
import re

NAME = re.compile(r"[^a-zA-Z0-9_-]")
MAX_NAME = 64


def wire_name(name: str) -> str:
    """A tool's name as the wire allows it; models make up names that would be refused in the history."""
    return NAME.sub("_", name)[:MAX_NAME] or "unknown"


def short_id(call_id: str, limit: int) -> str:
    """The id of a call, or another one made from it where it has more characters than `limit`."""
    return call_id if len(call_id) <= limit else f"call_{id_digest(call_id)}"[:limit]


def id_digest(call_id: str) -> str:
    """What an id that a wire refuses is replaced by: the same for a call and its result."""
    return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()
