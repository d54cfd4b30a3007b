"""Answers held to their schema: what is valid stays as it is, and nothing that a model writes can hurt (J2, J3)."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmcore.providers.scripted import ScriptedModel
from llmcore.structured.schemas import checked_schema
from llmcore.structured.validation import (
    MAX_ANSWER_CHARS,
    MAX_COUNTED,
    MAX_OBJECTIONS,
    MAX_VALUES,
    check_answer,
)
from tests.llmcore.prompt_packs import INVALID, SCHEMA, VALID

ANYTHING = {"type": "object"}
NAMES = st.lists(st.text(min_size=1, max_size=8), max_size=5)
SPACES = st.text(alphabet=" \t\r\n", max_size=5)


def at(pointers: Any) -> dict[str, str]:
    return {objection.pointer: objection.message for objection in pointers}


@settings(max_examples=60)
@given(names=NAMES, before=SPACES, after=SPACES, indent=st.sampled_from([None, 1, 4]), ascii=st.booleans())
def test_the_bytes_of_a_valid_answer_are_those_that_the_model_wrote(
    names: list[str], before: str, after: str, indent: int | None, ascii: bool
) -> None:
    value = {"names": names, "count": len(names)}
    answer = before + json.dumps(value, indent=indent, ensure_ascii=ascii) + after

    check = check_answer(SCHEMA, answer)

    assert check.valid and check.value == value
    assert check.data == answer.encode() and not check.fenced


@pytest.mark.parametrize("opening", ["```json\n", "```\n", "\n```JSON \r\n"])
def test_the_json_in_a_fence_is_taken_as_it_stands(opening: str) -> None:
    check = check_answer(SCHEMA, f"{opening}{VALID}\n```\n")

    assert check.valid and check.fenced and check.data == VALID.encode()


def test_objections_have_json_pointers() -> None:
    check = check_answer(SCHEMA, INVALID)

    assert not check.valid
    assert at(check.objections) == {
        "/count": "'2' is not of type 'integer'",
        "/extra": "is not in the schema; known are names, count, note",
        "/names/1": "'' should be non-empty",
    }
    assert at(check_answer(SCHEMA, "{}").objections) == {"/names": "is required", "/count": "is required"}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("", "Expecting value"),
        ("Here you are: {}", "Expecting value"),
        ('{"names": []', "Expecting ',' delimiter at line 1, column 13"),
        ('{"names": []} {"names": []}', "Extra data"),
        ('{"a": 1, "b": {"a": 1, "c": 2, "a": 3}}', "'a' stands twice"),
        ('{"a": NaN}', "NaN is not allowed"),
        ('{"a": -Infinity}', "-Infinity is not allowed"),
        ('{"a": 1e999}', "out of range"),
        ('{"a": ' + "9" * 5_000 + "}", "more than 1,000 digits"),
        ('{"a": "\ud800"}', "half of a character"),
        (r'{"a": ["\ud83e\udd16", "\uD800"]}', "half of a character"),
        (r'{"\udc00": 1}', "half of a character"),
        ('{"a": "\x01"}', "control character"),
        ("{" + '"a":{' * 200 + "}" * 201, "nested more than 100 deep"),
        ("[" * 200_000, "nested too deeply"),
        (" " * (MAX_ANSWER_CHARS + 1), "more than 5,000,000 characters"),
    ],
)
def test_what_is_no_json_for_all_readers_alike_is_refused(answer: str, said: str) -> None:
    check = check_answer(ANYTHING, answer)

    (objection,) = check.objections
    assert objection.pointer == "" and said.lower() in objection.message.lower()


def test_a_huge_answer_is_not_looked_at_value_by_value() -> None:
    check = check_answer(ANYTHING, json.dumps({"a": [0] * (MAX_VALUES + 1)}))

    assert [str(objection) for objection in check.objections] == ["the answer: holds more than 20,000 values"]


def test_objections_are_counted_and_bounded() -> None:
    check = check_answer(SCHEMA, json.dumps({"names": ["x" * 100_000, *[1] * 300], "count": 1}))

    assert (len(check.objections), check.count) == (MAX_OBJECTIONS, 300)
    assert all(len(objection.message) <= 301 for objection in check.objections)


def test_what_is_wrong_in_very_many_places_is_counted_no_further() -> None:
    members = {f"member_{number}": {"type": "string"} for number in range(300)}
    strict = {"type": "object", "properties": members, "additionalProperties": False}
    demanding = {"type": "object", "properties": {"a": {"items": {"required": list(members)}}}}

    for schema, value in ((strict, {str(n): 1 for n in range(5_000)}), (demanding, {"a": [{}] * 5_000})):
        check = check_answer(checked_schema("test", schema).json, json.dumps(value))

        assert (len(check.objections), check.count) == (MAX_OBJECTIONS, MAX_COUNTED)
        assert all(len(objection.message) <= 301 for objection in check.objections)


def test_a_pointer_names_a_place_without_repeating_all_that_the_model_wrote() -> None:
    schema = checked_schema("test", {"type": "object", "additionalProperties": {"items": {"type": "integer"}}})

    check = check_answer(schema.json, json.dumps({"k" * 100_000: ["x", 1, "y"]}))

    assert at(check.objections) == {
        f"/{'k' * 100}…/0": "'x' is not of type 'integer'",
        f"/{'k' * 100}…/2": "'y' is not of type 'integer'",
    }


def test_what_is_noted_of_a_nested_answer_does_not_hold_it_once_for_each_level() -> None:
    tree = {"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}, "minProperties": 2}
    value: Any = {"text": "é" * 300_000}
    for _ in range(30):
        value = {"a": value}
    answer = json.dumps(value, ensure_ascii=False)

    tracemalloc.start()
    try:
        check = check_answer(checked_schema("test", tree).json, answer, seconds=0.5)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert not check.valid
    assert peak < 10_000_000


@pytest.mark.parametrize(
    ("number", "step", "valid"),
    [
        ("1" + "0" * 400, 0.5, True),
        ("1" + "0" * 400, 0.3, False),
        ("0.3", 0.1, True),
        ("1e308", 1e-5, True),
        ("2.0", 2, True),
        ("7", 2, False),
        ("true", 2, True),
    ],
)
def test_any_number_can_be_held_to_a_step(number: str, step: float, valid: bool) -> None:
    schema = checked_schema("test", {"type": "object", "properties": {"a": {"multipleOf": step}}})

    assert check_answer(schema.json, f'{{"a": {number}}}').valid is valid


@pytest.mark.parametrize(
    "properties",
    [
        {"a": {"type": "string", "pattern": "^(a+)+$"}},
        {"a": {"patternProperties": {"^(a+)+$": {}}}},
        {"a": {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}},
    ],
)
def test_a_pattern_that_an_answer_makes_endless_is_given_up(properties: dict[str, Any]) -> None:
    text = "a" * 5_000 + "!"
    value = text if "pattern" in properties["a"] else {text: 1}
    schema = checked_schema("test", {"type": "object", "properties": properties}).json

    (objection,) = check_answer(schema, json.dumps({"a": value}), seconds=0.05).objections

    assert "takes more than 0.05 s to check" in objection.message


def test_choices_that_multiply_with_depth_are_given_up() -> None:
    inner = {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "required": ["b"]}
    choice = {"anyOf": [{**inner, "title": str(n)} for n in range(3)]}
    root = {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": choice}}
    schema = checked_schema("test", root)
    value: Any = {}
    for _ in range(40):
        value = {"a": value}

    (objection,) = check_answer(schema.json, json.dumps(value), seconds=0.05).objections

    assert "takes more than" in objection.message


def test_a_schema_that_leads_in_a_circle_is_no_crash() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"$ref": "#/$defs/x"}}}

    (objection,) = check_answer(checked_schema("test", schema).json, '{"a": 1}').objections

    assert "leads in a circle" in objection.message


@pytest.mark.parametrize("reference", ["{url}/schema.json", "file:///etc/hostname", "other.json", "#/$defs/gone"])
def test_nothing_is_fetched_for_a_schema(reference: str, scripted_server: tuple[ScriptedModel, str]) -> None:
    model, url = scripted_server
    model.requests.clear()
    schema = {"type": "object", "properties": {"a": {"$ref": reference.format(url=url)}}}

    (objection,) = check_answer(schema, '{"a": 1}').objections

    assert "refers to what isn't in it" in objection.message and not model.requests


def test_the_items_of_a_long_list_are_compared_in_linear_time() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    different = [{"n": n} for n in range(4_000)]

    assert check_answer(schema, json.dumps({"a": different})).valid
    assert not check_answer(schema, json.dumps({"a": [*different, {"n": 7.0}]})).valid


def test_a_dialect_that_a_schema_names_changes_nothing() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"a": {"$ref": "#"}, "b": {"pattern": "^(b+)+$"}},
    }

    checked = check_answer(schema, json.dumps({"a": {"b": "b" * 5_000 + "!"}}), seconds=0.05)

    assert "takes more than" in checked.objections[0].message
