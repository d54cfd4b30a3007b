"""What is said to a model whose arguments don't fit."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from llmcore.tools.arguments import explain_objections, explain_undecodable, objections

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
    assert objections(Draft202012Validator(SCHEMA), arguments) == found  # L6


def test_nothing_is_coerced() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "b": {"type": "boolean"}}}

    assert len(objections(Draft202012Validator(schema), {"n": "5", "b": 1})) == 2  # L6


def test_many_and_long_violations_are_bounded() -> None:
    arguments = {"number": "x" * 100_000, **{f"extra{n}": n for n in range(50)}}

    found = objections(Draft202012Validator(SCHEMA), arguments)

    assert len(found) == 11 and found[-1] == "and 41 more"
    assert len(explain_objections(found)) < 5_000


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
