"""Schemas that fork at each line: read in steps that grow with the schema, with what reading each way would find."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmcore.messages import JSON
from llmcore.providers import arguments
from llmcore.providers.arguments import read_arguments, variants_of
from llmcore.providers.derived_schemas import ANTHROPIC, derived, is_recursive, references

LISTS = {"type": "array", "items": {"type": "string"}}


def forks(keyword: str, *, levels: int, width: int, end: JSON) -> dict[str, JSON]:
    """Definitions D0 to D`levels`: each but the last offers the next one `width` times."""
    named: dict[str, JSON] = {
        f"D{level}": {keyword: [{"$ref": f"#/$defs/D{level + 1}"} for _ in range(width)]} for level in range(levels)
    }
    return named | {f"D{levels}": end}


# With each way taken by itself the tests with these would go on for days.


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_arguments_are_read_whose_schema_forks_at_each_level(keyword: str) -> None:
    named = forks(keyword, levels=4, width=150, end=LISTS)
    values = {"type": "array", "items": {"$ref": "#/$defs/D1"}}
    schema: Any = {"type": "object", "properties": {"value": named["D0"], "values": values}, "$defs": named}

    read, _ = read_arguments({"value": '["a"]', "values": ['["b"]'] * 1_000}, schema)

    assert read == {"value": ["a"], "values": [["b"]] * 1_000}


def test_of_a_schema_with_too_many_alternatives_nothing_is_taken_for_granted() -> None:
    many = [LISTS | {"description": str(number)} for number in range(arguments.MAX_VARIANTS + 1)]
    schema = {"properties": {"all": {"anyOf": many}, "fewer": {"anyOf": many[1:]}}}

    assert read_arguments({"all": "[1]", "fewer": "[1]"}, schema) == ({"all": "[1]", "fewer": [1]}, None)


@pytest.mark.parametrize("levels", [60, 3_000])
@pytest.mark.parametrize("recursive", [False, True])
def test_a_schema_is_derived_whose_definitions_fork_at_each_level(levels: int, recursive: bool) -> None:
    end: JSON = {"$ref": "#/$defs/D0"} if recursive else {"type": "string"}
    schema: JSON = {
        "type": "object",
        "properties": {"value": {"$ref": "#/$defs/D0"}},
        "$defs": forks("anyOf", levels=levels, width=2, end=end),
    }

    assert is_recursive(schema) is recursive
    assert (derived(schema, ANTHROPIC) is None) is recursive


# As it was written first: each way by itself.


def each_way(schema: Any, root: Any, depth: int = 0) -> Iterator[Any]:
    if isinstance(schema.get("$ref"), str) and depth < arguments.MAX_REFERENCES:
        yield from each_way(root["$defs"].get(schema["$ref"].removeprefix("#/$defs/"), {}), root, depth + 1)
        return
    for key in ("anyOf", "oneOf"):
        if key in schema and "type" not in schema and depth < arguments.MAX_REFERENCES:
            for alternative in schema[key]:
                yield from each_way(alternative, root, depth + 1)
            return
    yield schema


def leads_back(reference: str, definitions: dict[str, JSON], way: tuple[str, ...] = ()) -> bool:
    if reference in way or reference not in definitions:
        return True
    return any(leads_back(inner, definitions, (*way, reference)) for inner in references(definitions[reference]))


NAMES = "ABCD"
REFERENCES = st.sampled_from([{"$ref": f"#/$defs/{name}"} for name in (*NAMES, "nowhere")])
LEAVES = st.sampled_from([LISTS, {"type": "string"}, {}, {"type": "object", "anyOf": [LISTS]}])


def forking(inner: st.SearchStrategy[JSON]) -> st.SearchStrategy[JSON]:
    return st.dictionaries(st.sampled_from(["anyOf", "oneOf"]), st.lists(inner, max_size=2), min_size=1)


SCHEMAS = st.recursive(st.one_of(REFERENCES, LEAVES), forking, max_leaves=4)


@given(schema=SCHEMAS, named=st.fixed_dictionaries(dict.fromkeys(NAMES, SCHEMAS)))
def test_alternatives_are_what_each_way_leads_to(schema: dict[str, JSON], named: dict[str, JSON]) -> None:
    root = {"$defs": named}
    found = variants_of(schema, root)

    assert {json.dumps(each) for each in found} == {json.dumps(each) for each in each_way(schema, root)}
    assert len({id(each) for each in found}) == len(found)


@given(schema=SCHEMAS, named=st.dictionaries(st.sampled_from(NAMES), SCHEMAS))
def test_a_schema_is_recursive_where_a_way_leads_back_or_nowhere(schema: JSON, named: dict[str, JSON]) -> None:
    root: JSON = {"type": "object", "properties": {"value": schema}, "$defs": named}
    definitions = {"#": root} | {f"#/$defs/{name}": inner for name, inner in named.items()}

    assert is_recursive(root) is leads_back("#", definitions)
