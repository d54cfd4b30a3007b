"""JSON Schemas as each wire format takes them: a derived schema asks for no more than the original, or for nothing.

Answers are checked against the original, so a rule that a wire doesn't know may be left out. One that answers can't be
made without may not: then there is no derived schema, and what is wanted is said in the prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from llmcore.messages import JSON

# They say nothing about an answer.
ANNOTATIONS = frozenset({"$schema", "$id", "$comment", "examples", "default", "deprecated", "readOnly", "writeOnly"})
LENGTHS = frozenset({"minLength", "maxLength"})
COUNTS = frozenset({"minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"})
NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
TEXTS = frozenset({"pattern", "format"})
# What an answer is made of depends on them.
COMPOSED = frozenset(
    {"allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties"}
    | {"propertyNames", "contains", "minContains", "maxContains", "prefixItems"}
)
# What makes a schema one of several, or another one.
CHOICES = frozenset({"anyOf", "oneOf", "$ref"})
# Where schemas stand in a schema; all else is a value.
ONE = frozenset({"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"})
LISTED = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})


class _Underivable(Exception):
    """The wire can't be told what is wanted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaRules:
    """What a wire takes of a schema. `drops` are keywords that are left out, `refuses` those without which the schema
    means something else. Where it `closes`, objects list all their members; where it `requires_all`, each of them is
    there, if only as null. `renames` keywords to ones that ask for a little less. With a `plain_root` the whole is an
    object, and no choice between several."""

    drops: frozenset[str] = frozenset()
    refuses: frozenset[str] = frozenset()
    renames: Mapping[str, str] = field(default_factory=dict)
    closes: bool = False
    requires_all: bool = False
    recursive: bool = True
    plain_root: bool = False


# Servers that make a grammar of it.
ANY = SchemaRules()
# Source: OpenAI, structured outputs, supported schemas.
OPENAI_STRICT = SchemaRules(
    drops=LENGTHS | frozenset({"uniqueItems", "minProperties", "maxProperties"}),
    refuses=COMPOSED,
    renames={"oneOf": "anyOf"},
    closes=True,
    requires_all=True,
    plain_root=True,
)
# Source: Anthropic, structured outputs, JSON Schema limitations.
ANTHROPIC = SchemaRules(
    drops=LENGTHS | COUNTS | NUMBERS | TEXTS,
    refuses=COMPOSED,
    renames={"oneOf": "anyOf"},
    closes=True,
    recursive=False,
)
# Source: Google, structured output, responseJsonSchema.
GEMINI = SchemaRules(
    drops=LENGTHS
    | frozenset({"pattern", "uniqueItems", "multipleOf", "exclusiveMinimum", "exclusiveMaximum", "const"})
    | frozenset({"minProperties", "maxProperties"}),
    refuses=COMPOSED - {"prefixItems"},
)
# Source: llama.cpp's grammars, which Ollama uses: a pattern has to be anchored.
OLLAMA = SchemaRules(drops=frozenset({"pattern"}))


def derived(schema: JSON, rules: SchemaRules) -> JSON:
    """The schema under `rules`, as a new value; `None` where the wire can't be told."""
    if not rules.recursive and is_recursive(schema):
        return None
    if rules.plain_root and not _is_plain_object(schema):
        return None
    try:
        return _derived(schema, rules)
    except _Underivable:
        return None


def _derived(schema: JSON, rules: SchemaRules) -> JSON:
    if not isinstance(schema, dict):
        return schema
    found: dict[str, JSON] = {}
    for keyword, value in schema.items():
        if keyword in rules.refuses:
            raise _Underivable
        if keyword in ANNOTATIONS or keyword in rules.drops:
            if keyword == "const" and not isinstance(value, dict | list):
                found["enum"] = [value]
            continue
        name = rules.renames.get(keyword, keyword)
        if keyword in NAMED:
            found[name] = {each: _derived(inner, rules) for each, inner in value.items()}
        elif keyword in LISTED:
            found[name] = [_derived(inner, rules) for inner in value]
        elif keyword in ONE:
            found[name] = _derived(value, rules)
        else:
            found[name] = value
    if rules.closes and ("properties" in found or _is_object(found)):
        _close(found, schema, rules)
    return found


def _is_plain_object(schema: JSON) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "object" and CHOICES.isdisjoint(schema)


def _is_object(schema: Mapping[str, JSON]) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _close(found: dict[str, JSON], schema: Mapping[str, JSON], rules: SchemaRules) -> None:
    """Let the object have its own members and no others; what it has to have that it doesn't list can't be said."""
    members = found.get("properties")
    if not members or isinstance(found.get("additionalProperties"), dict):
        raise _Underivable
    required = list(schema.get("required") or ())
    if not set(required) <= set(members):
        raise _Underivable
    found["additionalProperties"] = False
    if rules.requires_all:
        optional = [name for name in members if name not in required]
        if any(not _takes_null(members[name]) for name in optional):
            raise _Underivable
        found["required"] = list(members)


def _takes_null(schema: JSON) -> bool:
    """Whether null is certainly valid; where that can't be told at once, it isn't."""
    if schema is True or schema == {}:
        return True
    if not isinstance(schema, dict):
        return False
    if "anyOf" in schema:
        return any(map(_takes_null, schema["anyOf"]))
    kind = schema.get("type")
    typed = kind == "null" or (isinstance(kind, list) and "null" in kind)
    return typed and None in schema.get("enum", [None])


def is_recursive(schema: JSON) -> bool:
    """Whether a schema leads back to itself."""
    definitions = {"#": schema}
    for keyword in ("$defs", "definitions"):
        for name, inner in (schema.get(keyword) or {}).items():
            definitions[f"#/{keyword}/{name}"] = inner

    leads: dict[str, list[str]] = {}
    waiting = ["#"]
    while waiting:
        reference = waiting.pop()
        if reference not in definitions:
            # Of a place that isn't known here, nothing is taken for granted.
            return True
        if reference not in leads:
            leads[reference] = references(definitions[reference])
            waiting += leads[reference]
    try:
        # Each reference is looked at once, on however many ways it is reached.
        TopologicalSorter(leads).prepare()
    except CycleError:
        return True
    return False


def references(schema: JSON) -> list[str]:
    """The references in a schema, without those in its definitions."""
    found = []
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if isinstance(reference := value.get("$ref"), str):
                found.append(reference)
            waiting += (inner for name, inner in value.items() if name not in ("$defs", "definitions"))
        elif isinstance(value, list):
            waiting += value
    return found
