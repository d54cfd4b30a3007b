"""Reads the arguments of a tool call, in whatever shape a model or a gateway gives them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from llmcore.messages import JSON
from llmcore.providers.json_text import decode_json, mend_values

Schema = Mapping[str, Any]

# A schema that refers to itself would be followed for ever.
MAX_REFERENCES = 8


def read_arguments(raw: JSON, schema: Schema | None = None) -> tuple[dict[str, JSON] | None, str | None]:
    """The arguments as an object, and the raw text where they are none.

    Absent, empty, blank and null arguments mean an empty object. A JSON string that holds an object is unwrapped
    once. Everything else that is not an object is undecodable: a call must never run with `{}` in its place.
    """
    value = _decoded(raw)
    if isinstance(value, dict):
        arguments = mend_values(value) if _may_hold_surrogates(raw) else value
        return (unwrap_nested(arguments, schema) if schema else arguments), None
    return None, raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False)


def _decoded(raw: JSON) -> JSON:
    if raw is None:
        return {}
    if not isinstance(raw, str):
        return raw
    if not raw.strip():
        return {}
    try:
        value = decode_json(raw)
        if value is None:
            return {}
        return decode_json(value) if isinstance(value, str) else value
    except ValueError:
        return None


def _may_hold_surrogates(raw: JSON) -> bool:
    return not isinstance(raw, str) or not raw.isascii() or "\\u" in raw


def unwrap_nested(value: JSON, schema: Schema, root: Schema | None = None) -> JSON:
    """Replace a string that holds JSON where `schema` wants an array or an object, and nothing else would do.

    Where the schema also allows a string, or says nothing, the string stays what it is.
    """
    root = schema if root is None else root
    variants = list(_variants(schema, root))
    if isinstance(value, str):
        return _unwrapped(value, variants)
    if isinstance(value, dict):
        return {name: _unwrapped_member(item, name, variants, root) for name, item in value.items()}
    if isinstance(value, list):
        items = [variant["items"] for variant in variants if isinstance(variant.get("items"), dict)]
        return [unwrap_nested(item, items[0], root) for item in value] if len(items) == 1 else value
    return value


def _unwrapped_member(item: JSON, name: str, variants: list[Schema], root: Schema) -> JSON:
    schemas = [
        schema
        for variant in variants
        if isinstance(properties := variant.get("properties"), dict)
        and isinstance(schema := properties.get(name), dict)
    ]
    return unwrap_nested(item, schemas[0], root) if len(schemas) == 1 else item


def _unwrapped(text: str, variants: list[Schema]) -> JSON:
    wanted = {kind for variant in variants for kind in _types(variant)}
    if not wanted & {"array", "object"} or wanted & {"string", "any"}:
        return text
    try:
        value = decode_json(text)
    except ValueError:
        return text
    kind = "array" if isinstance(value, list) else "object" if isinstance(value, dict) else ""
    return value if kind in wanted else text


def _types(schema: Schema) -> list[str]:
    """The declared types; "any" where the schema leaves it open."""
    declared = schema.get("type")
    if isinstance(declared, str):
        return [declared]
    if isinstance(declared, list):
        return [str(kind) for kind in declared]
    return ["any"]


def _variants(schema: Schema, root: Schema, depth: int = 0) -> Iterator[Schema]:
    """The schema, or its alternatives, with local references followed."""
    reference = schema.get("$ref")
    if isinstance(reference, str) and depth < MAX_REFERENCES:
        yield from _variants(_referenced(reference, root), root, depth + 1)
        return
    for key in ("anyOf", "oneOf"):
        alternatives = schema.get(key)
        if isinstance(alternatives, list) and "type" not in schema and depth < MAX_REFERENCES:
            for alternative in alternatives:
                if isinstance(alternative, dict):
                    yield from _variants(alternative, root, depth + 1)
            return
    yield schema


def _referenced(reference: str, root: Schema) -> Schema:
    target: Any = root
    for name in reference.removeprefix("#").strip("/").split("/"):
        target = target.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
    return target if isinstance(target, dict) else {}
