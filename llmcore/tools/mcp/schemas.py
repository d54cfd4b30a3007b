"""Schemas that come from elsewhere: what of them arguments are checked with, and which are refused.

Checking a value costs time for each part of a schema that it meets. A few lines can refer to themselves, or fork at
each line, so that one call would keep the process busy for hours. So a schema must be finite when it is written out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llmcore.errors import ConfigurationError
from llmcore.messages import JSON, canonical_json
from llmcore.tools.schema import check_parameters

MAX_SCHEMA_BYTES = 64_000
MAX_DEPTH = 40
# Parts of a schema written out, each reference replaced by what it refers to.
MAX_PARTS = 2_000

# Keywords that hold a schema, a list of schemas, or schemas by name. What isn't among them is data.
HOLDS_ONE = frozenset(
    {
        *("items", "contains", "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "propertyNames"),
        *("not", "if", "then", "else"),
    }
)
HOLDS_MANY = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
HOLDS_NAMED = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
DEFINITIONS = frozenset({"$defs", "definitions"})
# A pattern from elsewhere may take longer for each letter that it is tried on; the server checks it again anyway.
PATTERNS = frozenset({"pattern", "patternProperties"})
# They move where references lead to.
ANCHORS = frozenset({"$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$recursiveAnchor"})


def checked_schema(schema: Any, where: str) -> dict[str, JSON]:
    """The schema that arguments are checked with here: `schema` without its patterns. ConfigurationError says why it
    can't be used; `where` names the tool."""
    if not isinstance(schema, dict):
        raise ConfigurationError(f"{where} needs a JSON Schema of type object")
    if depth_of(schema) > MAX_DEPTH:
        raise ConfigurationError(f"{where} has a JSON Schema with more than {MAX_DEPTH} levels")
    if (size := len(canonical_json(schema).encode("utf-8", "surrogatepass"))) > MAX_SCHEMA_BYTES:
        raise ConfigurationError(f"{where} has a JSON Schema of {size:,} bytes; at most {MAX_SCHEMA_BYTES:,} are read")
    plain: dict[str, JSON] = without_patterns(schema)
    check_parameters(plain, where)
    parts_of(plain, plain, (), where, 0)
    return plain


def depth_of(value: Any) -> int:
    """How many lists and objects stand in each other. Without recursion: it may be deeper than the stack."""
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        if depth > MAX_DEPTH:
            break
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth


def without_patterns(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in PATTERNS:
            continue
        if keyword in HOLDS_ONE:
            kept[keyword] = without_patterns(value)
        elif keyword in HOLDS_MANY and isinstance(value, list):
            kept[keyword] = [without_patterns(item) for item in value]
        elif keyword in HOLDS_NAMED and isinstance(value, dict):
            kept[keyword] = {name: without_patterns(item) for name, item in value.items()}
        else:
            kept[keyword] = value
    return kept


def parts_of(schema: Any, root: dict[str, Any], inside: tuple[str, ...], where: str, count: int) -> int:
    """`count` and the parts of `schema` written out; `inside` are the references that led to it."""
    count += 1
    if count > MAX_PARTS:
        raise ConfigurationError(f"{where} has a JSON Schema with more than {MAX_PARTS:,} parts, written out")
    if not isinstance(schema, dict):
        return count
    if anchors := ANCHORS & schema.keys():
        raise ConfigurationError(f"{where} uses {min(anchors)!r} in its JSON Schema, which is not read here")
    reference = schema.get("$ref")
    if reference is not None:
        if reference in inside:
            raise ConfigurationError(f"{where} has a JSON Schema that contains itself ({str(reference)[:100]!r})")
        target = target_of(reference, root, where)
        count = parts_of(target, root, (*inside, reference), where, count)
    for inner in children_of(schema):
        count = parts_of(inner, root, inside, where, count)
    return count


def children_of(schema: dict[str, Any]) -> Iterator[Any]:
    """The schemas in a schema that values are held to; definitions count where they are referred to."""
    for keyword, value in schema.items():
        if keyword in HOLDS_ONE:
            yield value
        elif keyword in HOLDS_MANY and isinstance(value, list):
            yield from value
        elif keyword in HOLDS_NAMED - DEFINITIONS and isinstance(value, dict):
            yield from value.values()


def target_of(reference: Any, root: dict[str, Any], where: str) -> Any:
    """What a reference within the schema leads to: a definition by its name."""
    match str(reference).split("/"):
        case ["#", ("$defs" | "definitions") as kind, name] if "~" not in name and "%" not in name:
            named = root.get(kind)
            if isinstance(named, dict) and name in named:
                return named[name]
    raise ConfigurationError(
        f"{where} refers to {str(reference)[:100]!r}; only references to a definition of the same JSON Schema are read"
    )
