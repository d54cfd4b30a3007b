"""How each wire format is asked for JSON of a schema: held to a derived one, or told in the prompt (J2)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from llmcore.configuration import Parameters
from llmcore.messages import JSON, Message
from llmcore.providers import derived_schemas
from llmcore.providers.base import Transcript
from llmcore.providers.derived_schemas import derived
from llmcore.providers.registry import adapter_of, adapters
from llmcore.runs.fallback import call_to
from llmcore.structured.expected import Expected, asked_of
from llmcore.structured.schemas import checked_schema
from tests.llmcore.prompt_packs import SCHEMA, configuration_of

NAMES = checked_schema("test.names", SCHEMA)
STRICT = {
    "title": "Names",
    "type": "object",
    "properties": {
        "names": {"type": "array", "items": {"type": "string"}},
        "count": {"type": "integer", "minimum": 0},
        "note": {"type": ["string", "null"]},
    },
    # What may be left out may be null, so it can be asked for.
    "required": ["names", "count", "note"],
    "additionalProperties": False,
}
GRAMMAR = {name: part for name, part in SCHEMA.items() if name != "$schema"}
ANTHROPIC = {
    **STRICT,
    "properties": {**STRICT["properties"], "count": {"type": "integer"}},  # type: ignore[dict-item]
    "required": ["names", "count"],
}
GEMINI = {
    **GRAMMAR,
    "properties": {**GRAMMAR["properties"], "names": {"type": "array", "items": {"type": "string"}}},
}
CHAT_FORMAT = {"type": "json_schema", "json_schema": {"name": "response", "schema": STRICT, "strict": True}}
GRAMMAR_FORMAT = {"type": "json_schema", "json_schema": {"name": "response", "schema": GRAMMAR, "strict": True}}
# Where each wire says it, and what.
NATIVE: dict[str, dict[str, JSON]] = {
    "openai_compat": {"response_format": GRAMMAR_FORMAT},
    "mistral": {"response_format": GRAMMAR_FORMAT},
    "openai_chat": {"response_format": CHAT_FORMAT},
    "azure_openai": {"response_format": CHAT_FORMAT},
    "groq": {"response_format": CHAT_FORMAT},
    "openrouter": {"response_format": CHAT_FORMAT},
    "openai_responses": {
        "text": {"format": {"type": "json_schema", "name": "response", "schema": STRICT, "strict": True}}
    },
    "anthropic": {"output_config": {"format": {"type": "json_schema", "schema": ANTHROPIC}}},
    "gemini": {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": GEMINI}},
    "ollama": {"format": GRAMMAR},
}
FIELDS = ("response_format", "text", "output_config", "generationConfig", "format")


def body_of(adapter: str, **model: Any) -> bytes:
    configuration = configuration_of(adapter, **model)
    (route,) = configuration.routes
    call = call_to(route, Parameters(stream=False), (), Expected(schema=NAMES))
    wire = adapter_of(route.provider, route.model)
    return wire.frame(call, Transcript(wire, call, [Message.of("user", "Go")]).encoded()).body


def test_every_adapter_has_its_place_here() -> None:
    assert {*NATIVE, "deepseek"} == set(adapters())


@pytest.mark.parametrize("adapter", sorted(NATIVE))
def test_a_wire_that_knows_schemas_is_sent_the_derived_one(adapter: str) -> None:
    body = body_of(adapter)
    sent = json.loads(body)

    assert {name: sent[name] for name in FIELDS if name in sent} == NATIVE[adapter]
    # Byte for byte, in the order in which it was written.
    spelled = json.dumps(NATIVE[adapter], ensure_ascii=False, separators=(",", ":"))[1:-1]
    assert spelled.encode() in body


@pytest.mark.parametrize("adapter", sorted(adapters()))
def test_a_model_that_can_not_be_held_to_one_is_sent_none(adapter: str) -> None:
    sent = json.loads(body_of(adapter, supports_structured_output=False))

    assert not [name for name in FIELDS if name in sent]


def test_a_wire_that_knows_json_only_is_told_that_much() -> None:
    assert json.loads(body_of("deepseek"))["response_format"] == {"type": "json_object"}
    (route,) = configuration_of("deepseek").routes
    assert not asked_of(route, NAMES).native


@pytest.mark.parametrize("adapter", sorted(adapters()))
def test_tools_as_json_and_a_schema_go_together(adapter: str) -> None:
    assert body_of(adapter, tools_as_json=True) == body_of(adapter)


# What can be derived


MAP = {"type": "object", "properties": {"m": {"type": "object", "additionalProperties": {"type": "string"}}}}
OPTIONAL = {"type": "object", "properties": {"a": {"type": "string"}}}
RECURSIVE = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
    "required": ["v", "next"],
}
CHOICE = {
    "type": "object",
    "properties": {"a": {"oneOf": [{"type": "string", "pattern": "^x"}, {"type": "integer"}]}},
    "required": ["a"],
}
CONDITION = {**CHOICE, "if": {"properties": {"a": {"type": "string"}}}, "then": {"required": ["b"]}}
FREE = {"type": "object"}
EITHER = {**CHOICE, "anyOf": [CHOICE, {**CHOICE, "properties": {"a": {"type": "integer"}}}]}


@pytest.mark.parametrize(
    ("schema", "held"),
    [
        (MAP, {"openai_compat", "mistral", "ollama", "gemini"}),
        (OPTIONAL, {"openai_compat", "mistral", "ollama", "gemini", "anthropic"}),
        (RECURSIVE, set(NATIVE) - {"anthropic"}),
        (CHOICE, set(NATIVE)),
        (CONDITION, {"openai_compat", "mistral", "ollama"}),
        (FREE, {"openai_compat", "mistral", "ollama", "gemini"}),
        (EITHER, {"openai_compat", "mistral", "ollama", "gemini", "anthropic"}),
    ],
    ids=["map", "optional", "recursive", "choice", "condition", "free", "either"],
)
def test_a_schema_that_a_wire_can_not_say_is_said_in_the_prompt(schema: JSON, held: set[str]) -> None:
    found = checked_schema("test", schema)
    routes = {name: configuration_of(name).routes[0] for name in adapters()}

    assert {name for name, route in routes.items() if asked_of(route, found).native} == held


RULES = [
    derived_schemas.ANY,
    derived_schemas.OPENAI_STRICT,
    derived_schemas.ANTHROPIC,
    derived_schemas.GEMINI,
    derived_schemas.OLLAMA,
]
LEAF = st.sampled_from(
    [
        {"type": "string", "minLength": 2, "description": "A name"},
        {"type": "string", "pattern": "^a", "format": "date"},
        {"type": "integer", "minimum": 1, "exclusiveMaximum": 9},
        {"type": ["string", "null"], "maxLength": 3},
        {"const": "x"},
        {"enum": ["a", "b", 3]},
        {"type": "boolean", "default": True},
    ]
)


def wider(inner: st.SearchStrategy[JSON]) -> st.SearchStrategy[JSON]:
    return st.one_of(
        st.builds(lambda item: {"type": "array", "items": item, "minItems": 1, "uniqueItems": True}, inner),
        st.builds(lambda items: {"anyOf": items}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(object_of, st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3), st.booleans()),
    )


def object_of(members: dict[str, JSON], closed: bool) -> JSON:
    schema = {"type": "object", "properties": members, "required": list(members)[:2]}
    return {**schema, "additionalProperties": False} if closed else schema


SCHEMAS = st.dictionaries(st.sampled_from("abc"), st.recursive(LEAF, wider, max_leaves=6), min_size=1, max_size=3)


@settings(max_examples=150)
@given(members=SCHEMAS, closed=st.booleans(), rules=st.sampled_from(RULES), data=st.data())
def test_a_derived_schema_is_a_schema_and_lets_valid_answers_through(
    members: dict[str, JSON], closed: bool, rules: derived_schemas.SchemaRules, data: st.DataObject
) -> None:
    schema = object_of(members, closed)
    before = json.dumps(schema)
    found = derived(schema, rules)

    assert json.dumps(schema) == before
    if found is None:
        return
    Draft202012Validator.check_schema(found)
    keywords = {name for inner in objects(found) for name in inner}
    assert not keywords & (rules.drops | rules.refuses | derived_schemas.ANNOTATIONS) - set("abc")
    if not rules.requires_all and not rules.closes:
        # What it leaves out asked for more: whatever fits the original fits it.
        value = data.draw(st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["a", "ab", 3, None, True, ["x"]])))
        if Draft202012Validator(schema).is_valid(value):
            assert Draft202012Validator(found).is_valid(value)


def objects(schema: JSON) -> Iterator[dict[str, JSON]]:
    if isinstance(schema, dict):
        if "properties" not in schema or schema.get("type") == "object":
            yield schema
        for name, value in schema.items():
            for inner in value.values() if name == "properties" else [value]:
                yield from objects(inner)
    elif isinstance(schema, list):
        for item in schema:
            yield from objects(item)
