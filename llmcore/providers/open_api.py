"""Whether a JSON Schema keeps to the part of it that Gemini's older field for schemas takes."""

from __future__ import annotations

from typing import Any

from llmcore.messages import JSON

# Source: the Schema object of Google's API.
SINGLE = frozenset({"object", "array", "string", "integer", "number", "boolean"})
PLAIN = frozenset(
    {
        *("type", "title", "description", "enum", "required", "nullable", "default", "example", "pattern"),
        *("minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"),
    }
)


def is_open_api(schema: JSON) -> bool:
    """A schema with anything else in it, such as references or lists of types, is not."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(kind, str) or kind not in SINGLE:
        return False
    if isinstance(enum := schema.get("enum"), list) and not all(isinstance(value, str) for value in enum):
        return False
    nested: list[Any] = []
    for name, value in schema.items():
        if name == "properties" and isinstance(value, dict):
            nested.extend(value.values())
        elif name == "items":
            nested.append(value)
        elif name not in PLAIN:
            return False
    return all(is_open_api(inner) for inner in nested)
