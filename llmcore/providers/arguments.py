"""Reads the arguments of a tool call, in whatever shape a model or a gateway gives them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from llmcore.messages import JSON
from llmcore.providers.json_text import decode_json, mend_values

Schema = Mapping[str, Any]

# A schema that refers to itself would be followed for ever.
MAX_REFERENCES = 8
# A few lines of a schema can fork at each line. Of one with more alternatives than this, nothing is taken for granted.
MAX_VARIANTS = 200


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


def unwrap_nested(value: JSON, schema: Schema) -> JSON:
    """Replace a string that holds JSON where `schema` wants an array or an object, and nothing else would do.

    Where the schema also allows a string, or says nothing, the string stays what it is.
    """
    return _Unwrapping(schema).unwrap(value, schema)


class _Unwrapping:
    """The walk through one value, which looks at each part of the schema once, however many values it is for."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._known: dict[int, list[Schema]] = {}

    def unwrap(self, value: JSON, schema: Schema) -> JSON:
        variants = self._variants(schema)
        if isinstance(value, str):
            return _unwrapped(value, variants)
        if isinstance(value, dict):
            return {name: self._member(item, name, variants) for name, item in value.items()}
        if isinstance(value, list):
            items = [variant["items"] for variant in variants if isinstance(variant.get("items"), dict)]
            return [self.unwrap(item, items[0]) for item in value] if len(items) == 1 else value
        return value

    def _member(self, item: JSON, name: str, variants: list[Schema]) -> JSON:
        schemas = [
            schema
            for variant in variants
            if isinstance(properties := variant.get("properties"), dict)
            and isinstance(schema := properties.get(name), dict)
        ]
        return self.unwrap(item, schemas[0]) if len(schemas) == 1 else item

    def _variants(self, schema: Schema) -> list[Schema]:
        if (known := self._known.get(id(schema))) is None:
            known = self._known[id(schema)] = variants_of(schema, self._root)
        return known


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


def variants_of(schema: Schema, root: Schema) -> list[Schema]:
    """The schema, or its alternatives, with local references followed: each once, however many ways lead to it."""
    settled: dict[int, Schema] = {}
    level = {id(schema): schema}
    for _ in range(MAX_REFERENCES):
        following: dict[int, Schema] = {}
        for each in level.values():
            alternatives = _alternatives(each, root)
            if alternatives is None:
                settled[id(each)] = each
            elif len(settled) + len(following) + len(alternatives) > MAX_VARIANTS:
                return [{}]
            else:
                following.update((id(inner), inner) for inner in alternatives if isinstance(inner, dict))
        level = following
    return list((settled | level).values())


def _alternatives(schema: Schema, root: Schema) -> list[Any] | None:
    """What a schema refers to, or offers, in its place; `None` where it speaks for itself."""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return [_referenced(reference, root)]
    found = (schema.get(key) for key in ("anyOf", "oneOf") if "type" not in schema)
    return next((alternatives for alternatives in found if isinstance(alternatives, list)), None)


def _referenced(reference: str, root: Schema) -> Schema:
    target: Any = root
    for name in reference.removeprefix("#").strip("/").split("/"):
        target = target.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
    return target if isinstance(target, dict) else {}
