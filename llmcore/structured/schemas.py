"""Reads response schemas, and refuses those that no answer could be held to safely."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import regex
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError as NotASchema
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from llmcore.errors import ConfigurationError, InvalidSchemaJSON, InvalidSchemaMetadata, InvalidTarget
from llmcore.messages import JSON
from llmcore.providers.json_text import decode_json
from llmcore.structured.response_schema import ResponseSchema
from llmcore.tools.schema import foreign_references, schema_of

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MAX_SCHEMA_BYTES = 500_000
# The library matches patterns for these itself, in a time that an answer can stretch.
UNBOUNDED = frozenset({"unevaluatedProperties", "unevaluatedItems", "$dynamicRef"})


def read_schema(id: str, data: bytes) -> ResponseSchema:
    """The schema in a file. What is wrong with it is said without quoting it."""
    if len(data) > MAX_SCHEMA_BYTES:
        raise InvalidSchemaMetadata(f"The schema “{id}” has {len(data):,} bytes, more than {MAX_SCHEMA_BYTES:,}.")
    try:
        value = decode_json(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise InvalidSchemaJSON(f"The schema “{id}” is not valid UTF-8.") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidSchemaJSON(f"The schema “{id}” is no JSON: {where}.") from None
    except ValueError:
        raise InvalidSchemaJSON(f"The schema “{id}” is no JSON.") from None
    return checked_schema(id, value)


def checked_schema(id: str, value: JSON) -> ResponseSchema:
    """InvalidSchemaMetadata where no answer could be held to `value`."""
    check_schema(id, value)
    return ResponseSchema.of(id, value)


def schema_of_type(target: Any, id: str = "") -> ResponseSchema:
    """The schema of a dataclass or TypedDict; InvalidTarget for what no JSON object can be made into. Its name is that
    of the type unless `id` gives another."""
    name = getattr(target, "__qualname__", repr(target))
    try:
        value = schema_of(target, f"the target {name}")
    except ConfigurationError as error:
        raise InvalidTarget(f"An answer can't be made into {name}: {error}.") from error
    if value.get("type") != "object" or "properties" not in value:
        raise InvalidTarget(f"An answer can't be made into {name}: it is no dataclass and no TypedDict.")
    return checked_schema(id or f"type:{name}", value)


def check_schema(id: str, value: JSON) -> None:
    """InvalidSchemaMetadata says, without quoting it, why no answer could be held to it."""
    if problem := _problem(id, value):
        raise InvalidSchemaMetadata(f"The schema “{id}” {problem}.")


def _problem(id: str, value: JSON) -> str:
    if not isinstance(value, dict) or value.get("type") != "object":
        return "needs the type object at its root: answers are JSON objects"
    if value.get("$schema", DIALECT) != DIALECT:
        return f"names another dialect than {DIALECT}"
    if value.get("$id", id) != id:
        return "has another $id of its own; leave it out, or make them the same"
    try:
        Draft202012Validator.check_schema(value)
    except NotASchema as error:
        place = "/".join(str(step) for step in error.absolute_path) or "its root"
        return f"breaks the rules of JSON Schema at {place}"
    # A reference to another document would be fetched from wherever it points to.
    if next(foreign_references(value), None) is not None:
        return "refers to another document; only references inside it are read"
    resolver = Registry().resolver_with_root(DRAFT202012.create_resource(value))
    return next(filter(None, (_problem_inside(inner, value, resolver) for inner in _inner_schemas(value))), "")


def _problem_inside(inner: dict[str, JSON], root: JSON, resolver: Any) -> str:
    if inner is not root and any(isinstance(inner.get(name), str) for name in ("$schema", "$id")):
        return "has a $schema or $id inside; only its root may have them"
    if refused := sorted(UNBOUNDED & inner.keys()):
        return f"uses {', '.join(refused)}, which isn't checked here"
    try:
        if isinstance(reference := inner.get("$ref"), str):
            resolver.lookup(reference)
    except Unresolvable:
        return "refers to a part of itself that isn't there"
    try:
        for pattern in (inner.get("pattern"), *(inner.get("patternProperties") or ())):
            if isinstance(pattern, str):
                regex.compile(pattern)
    except regex.error as error:
        return f"has a pattern that can't be read: {error.msg}"
    return ""


def _inner_schemas(value: JSON) -> Iterator[dict[str, JSON]]:
    """Every object in a schema: each schema in it, and what only looks like one."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield item
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
