"""What is said to a model whose arguments don't fit."""

from __future__ import annotations

import time
from typing import Any

import pytest

from llmcore.tools.arguments import explain_objections, explain_undecodable, objections, validator_for

SCHEMA = {
    "type": "object",
    "properties": {
        "number": {"type": "string", "maxLength": 5},
        "lines": {
            "type": "array",
            "items": {"type": "object", "properties": {"count": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}},
        },
        "a/b~c": {"type": "integer"},
    },
    "required": ["number"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"number": "1"}, []),
        ({}, ["/number: is required"]),
        ({"number": 1}, ["/number: 1 is not of type 'string'"]),
        ({"number": "1", "lines": [{}, {"count": "2"}]}, ["/lines/1/count: '2' is not of type 'integer'"]),
        ({"number": "1", "a/b~c": "x"}, ["/a~1b~0c: 'x' is not of type 'integer'"]),
        ({"number": "1", "other": 2}, ["/other: is not a parameter; known are number, lines, a/b~c"]),
    ],
)
def test_each_violation_has_a_json_pointer(arguments: dict[str, Any], found: list[str]) -> None:
    assert objections(validator_for(SCHEMA), arguments) == found  # L6


def test_nothing_is_coerced() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "b": {"type": "boolean"}}}

    assert len(objections(validator_for(schema), {"n": "5", "b": 1})) == 2  # L6


def test_many_and_long_violations_are_bounded() -> None:
    arguments = {"number": "x" * 100_000, **{f"extra{n}": n for n in range(50)}}

    found = objections(validator_for(SCHEMA), arguments)

    assert len(found) == 11 and found[-1] == "and 41 more"
    assert len(explain_objections(found)) < 5_000


SLOW = {"type": "object", "properties": {"name": {"type": "string", "pattern": "^(a+)+$"}}}


def test_a_pattern_that_takes_for_ever_is_given_up() -> None:  # L6
    """Schemas of tools may come from another server, and arguments from anybody."""
    started = time.thread_time()
    found = objections(validator_for(SLOW), {"name": "a" * 5_000 + "!"}, seconds=0.1)

    assert found == ["the arguments: it takes more than 0.1 s to check; keep it shorter and simpler"]
    assert time.thread_time() - started < 2
    assert objections(validator_for(SLOW), {"name": "aaa"}) == []


@pytest.mark.parametrize(
    "nested",
    [
        {"$schema": "http://json-schema.org/draft-07/schema#", **SLOW},
        {"$id": "https://example.com/a", **SLOW},
        {"anyOf": [{"$schema": "https://json-schema.org/draft/2019-09/schema", **SLOW}]},
    ],
)
def test_no_part_of_a_schema_escapes_the_bounds_by_its_dialect(nested: dict[str, Any]) -> None:  # L6
    schema = {"type": "object", "properties": {"inner": nested}}
    found = objections(validator_for(schema), {"inner": {"name": "a" * 5_000 + "!"}}, seconds=0.1)

    assert len(found) == 1 and "takes more than 0.1 s" in found[0]


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"$ref": "http://127.0.0.1:9/secret.json"}, "refers to what isn't in it"),
        ({"$ref": "#/$defs/gone"}, "refers to what isn't in it"),
        ({"$ref": "#/properties/name"}, "leads in a circle"),
        ({"pattern": "(unclosed"}, "has a pattern that is none"),
    ],
)
def test_a_schema_that_is_at_fault_is_named_and_nothing_is_fetched(part: dict[str, Any], said: str) -> None:  # L6
    schema = {"type": "object", "properties": {"name": part}}

    (line,) = objections(validator_for(schema), {"name": "x"})

    assert line.startswith("the arguments: it can't be checked: the schema") and said in line


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ('{"a": ', "not valid JSON"),
        ("[1]", "they are an array"),
        ("5", "they are a number"),
        ("true", "they are a boolean"),
        ('"text"', "they are a string"),
        (None, "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_undecodable_arguments_are_explained(raw: str | None, problem: str) -> None:
    assert problem in explain_undecodable(raw)  # L6
