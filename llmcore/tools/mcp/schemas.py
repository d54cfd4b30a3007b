"""Schemas that come from elsewhere: which can be used, and which are refused.

A few lines of a schema can fork at each line, or lead back to themselves before any part of a value was looked at, so
that whoever reads it would be busy for hours. How long holding a value to it may take is bounded elsewhere; here it is
the schema itself, for all that read it: adapters of providers, the page, the search for alternatives.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from llmcore.errors import ConfigurationError
from llmcore.messages import JSON
from llmcore.tools.schema import check_parameters

MAX_SCHEMA_BYTES = 64_000
MAX_DEPTH = 40
# Parts of a schema written out: each reference replaced by what it refers to, once on each way.
MAX_PARTS = 2_000

# Keywords that hold a schema, a list of schemas, or schemas by name: for the value itself, and for parts of it.
SAME_ONE, PART_ONE = frozenset({"not", "if", "then", "else"}), frozenset({"items", "contains", "propertyNames"})
PART_ONE |= {"additionalProperties", "unevaluatedItems", "unevaluatedProperties"}
SAME_MANY, PART_MANY = frozenset({"allOf", "anyOf", "oneOf"}), frozenset({"prefixItems"})
SAME_NAMED, PART_NAMED = frozenset({"dependentSchemas"}), frozenset({"properties", "patternProperties"})
# They move where references lead to.
ANCHORS = frozenset({"$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$recursiveAnchor"})


def checked_schema(schema: Any) -> dict[str, JSON]:
    """`schema`, if arguments can be held to it; ConfigurationError says what is wrong with it."""
    if not isinstance(schema, dict):
        raise ConfigurationError("it needs a JSON Schema of type object")
    # First, since all that follows goes as deep as the schema does.
    if is_deeper(schema, MAX_DEPTH):
        raise ConfigurationError(f"its JSON Schema has more than {MAX_DEPTH} levels")
    try:
        # Some readers of JSON take numbers that it doesn't have, and no database does.
        size = len(json.dumps(schema, allow_nan=False).encode("utf-8"))
    except ValueError:
        raise ConfigurationError("its JSON Schema has a number that JSON doesn't have") from None
    if size > MAX_SCHEMA_BYTES:
        raise ConfigurationError(f"its JSON Schema has {size:,} bytes; at most {MAX_SCHEMA_BYTES:,} are read")
    check_parameters(schema, "it")
    count_parts(schema, schema, (), (), 0)
    return schema


def is_deeper(value: JSON, levels: int) -> bool:
    """Whether more lists and objects than that stand in each other, without going deeper."""
    found = [value]
    for _ in range(levels + 1):
        found = [item for item in found if isinstance(item, dict | list)]
        found = [inner for item in found for inner in (item.values() if isinstance(item, dict) else item)]
    return any(isinstance(item, dict | list) for item in found)


def count_parts(schema: Any, root: dict[str, Any], way: tuple[str, ...], here: tuple[str, ...], count: int) -> int:
    """`count` and the parts of `schema` written out. The references of `way` led to it, the last of them, `here`,
    without a step into a part of the value."""
    count += 1
    if count > MAX_PARTS:
        raise ConfigurationError(f"its JSON Schema has more than {MAX_PARTS:,} parts, written out")
    if not isinstance(schema, dict):
        return count
    if anchors := ANCHORS & schema.keys():
        raise ConfigurationError(f"its JSON Schema uses {min(anchors)!r}, which is not read here")
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference in here:
            raise ConfigurationError(f"its JSON Schema leads in a circle at {reference[:100]!r}")
        target = target_of(reference, root)
        # What contains itself in a part, such as a tree, is written out once.
        if reference not in way:
            count = count_parts(target, root, (*way, reference), (*here, reference), count)
    for inner in inner_schemas(schema, SAME_ONE, SAME_MANY, SAME_NAMED):
        count = count_parts(inner, root, way, here, count)
    for inner in inner_schemas(schema, PART_ONE, PART_MANY, PART_NAMED):
        count = count_parts(inner, root, way, (), count)
    return count


def inner_schemas(
    schema: dict[str, Any], one: frozenset[str], many: frozenset[str], named: frozenset[str]
) -> Iterator[Any]:
    for keyword, value in schema.items():
        if keyword in one:
            yield value
        elif keyword in many and isinstance(value, list):
            yield from value
        elif keyword in named and isinstance(value, dict):
            yield from value.values()


def target_of(reference: str, root: dict[str, Any]) -> Any:
    """What a reference within the schema leads to."""
    target: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and name.isdecimal() and int(name) < len(target):
            target = target[int(name)]
        elif isinstance(target, dict) and name in target:
            target = target[name]
        else:
            raise ConfigurationError(f"its JSON Schema refers to {reference[:100]!r}, which isn't in it")
    return target
