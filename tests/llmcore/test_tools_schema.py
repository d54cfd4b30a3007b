"""A tool's schema comes from its type hints and docstring, and its arguments arrive in those types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, TypedDict
from uuid import UUID

import pytest
from jsonschema import Draft202012Validator

from llmcore.errors import ConfigurationError, ToolError
from llmcore.tools.base import ToolContext
from llmcore.tools.docstrings import read_docstring
from llmcore.tools.registry import ToolRegistry
from llmcore.tools.schema import check_parameters, schema_of, schema_of_function

INTEGER = {"type": "integer"}
TEXT = {"type": "string"}


class Color(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Line:
    """One line of an order.

    Attributes:
        sku: The article's number.
    """

    sku: str
    count: Annotated[int, "how many pieces", {"minimum": 1}] = 1
    tags: list[str] = field(default_factory=list)


class Filter(TypedDict):
    since: date
    until: NotRequired[date]


@dataclass
class Node:
    children: list[Node]


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (date, {"type": "string", "format": "date"}),
        (datetime, {"type": "string", "format": "date-time"}),
        (time, {"type": "string", "format": "time"}),
        (UUID, {"type": "string", "format": "uuid"}),
        (Any, {}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (tuple[int, str], {"type": "array", "prefixItems": [INTEGER, TEXT], "items": False, "minItems": 2}),
        (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        (dict, {"type": "object"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1, "b"], {"enum": [1, "b"]}),
        (Color, {"type": "string", "enum": ["red", "blue"]}),
        (Annotated[int, "a count", {"minimum": 1}], {"type": "integer", "description": "a count", "minimum": 1}),
    ],
)  # fmt: skip
def test_each_type_has_its_schema(hint: Any, schema: dict[str, Any]) -> None:
    assert schema_of(hint) == schema  # K1


def test_a_decimal_may_be_written_as_a_number_or_a_text() -> None:
    validator = Draft202012Validator(schema_of(Decimal))

    assert validator.is_valid(1.5) and validator.is_valid("-1.50")
    assert not validator.is_valid("a lot") and not validator.is_valid(True)


def test_a_dataclass_is_an_object_that_allows_no_other_keys() -> None:
    schema = schema_of(Line)

    assert schema["description"] == "One line of an order."
    assert schema["required"] == ["sku"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["sku"] == {"description": "The article's number.", "type": "string"}
    assert schema["properties"]["count"]["minimum"] == 1


def test_a_typed_dict_requires_what_it_does_not_mark() -> None:
    assert schema_of(Filter)["required"] == ["since"]


def look_up(
    context: ToolContext, number: str, since: Annotated[date, "not before"], limit: int = 10, color: Color = Color.RED
) -> str:
    """Look up an order.

    Only those of the last year are found.

    Args:
        context: not for the model.
        number (str): The order's number,
            as printed on the invoice.
        since: ignored, the hint describes it.
        limit: How many at most.

    Returns:
        The order's state: as text.
    """
    return ""


def test_a_function_is_described_by_its_hints_and_docstring() -> None:
    schema = schema_of_function(look_up, skip={"context"})

    assert list(schema["properties"]) == ["number", "since", "limit", "color"]
    assert schema["required"] == ["number", "since"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["number"]["description"] == "The order's number, as printed on the invoice."
    assert schema["properties"]["since"]["description"] == "not before"
    assert schema["properties"]["limit"] == {"description": "How many at most.", "type": "integer", "default": 10}
    assert schema["properties"]["color"]["default"] == "red"
    check_parameters(schema, "look_up")


def test_a_default_that_json_does_not_have_is_left_out() -> None:
    def spend(most: float = math.inf) -> str:
        return ""

    assert schema_of_function(spend)["properties"]["most"] == {"type": "number"}


def test_a_docstring_is_taken_apart() -> None:
    docstring = read_docstring(look_up.__doc__)

    assert docstring.text == "Look up an order.\n\nOnly those of the last year are found."
    assert set(docstring.parameters) == {"context", "number", "since", "limit"}
    assert read_docstring(None).text == ""


def without_hint(number):  # type: ignore[no-untyped-def]
    """Look."""


def with_any_number(*numbers: str) -> None:
    """Look."""


def with_bytes(data: bytes) -> None:
    """Look."""


def with_number_keys(data: dict[int, str]) -> None:
    """Look."""


def with_recursion(node: Node) -> None:
    """Look."""


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (without_hint, "'number' of without_hint needs a type hint"),
        (with_any_number, "name of its own"),
        (with_bytes, "no JSON Schema"),
        (with_number_keys, "str keys"),
        (with_recursion, "contains itself"),
    ],
)
def test_what_can_not_be_described_is_refused_with_the_place(function: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        schema_of_function(function)


def test_a_schema_given_by_hand_must_be_valid_and_refer_to_nothing_outside() -> None:
    with pytest.raises(ConfigurationError, match="invalid JSON Schema"):
        check_parameters({"type": "objekt"}, "the tool")
    with pytest.raises(ConfigurationError, match="of type object"):
        check_parameters({"type": "array"}, "the tool")
    with pytest.raises(ConfigurationError, match="another document"):
        check_parameters({"type": "object", "properties": {"a": [{"$ref": "http://169.254.169.254/"}][0]}}, "the tool")


def test_arguments_arrive_in_the_types_of_the_hints() -> None:
    registry = ToolRegistry()

    @registry.tool()
    def order(
        day: date,
        lines: list[Line],
        window: Filter,
        color: Color | None = None,
        price: Decimal | None = None,
        tags: frozenset[str] = frozenset(),
        pair: tuple[int, Color] = (1, Color.RED),
        prices: dict[str, Decimal] | None = None,
        note: str | None = None,
    ) -> Any:
        """Order."""
        return day, lines, window, color, price, tags, pair, prices, note

    given = registry.all_tools()["order"].run(
        day="2024-02-29",
        lines=[{"sku": "A", "count": 2.0}],
        window={"since": "2024-01-01"},
        color="blue",
        price=1.10,
        tags=["x", "x"],
        pair=[2, "red"],
        prices={"a": "1.00"},
        note=None,
    )

    assert given == (
        date(2024, 2, 29),
        [Line("A", 2)],
        {"since": date(2024, 1, 1)},
        Color.BLUE,
        Decimal("1.1"),
        {"x"},
        (2, Color.RED),
        {"a": Decimal("1.00")},
        None,
    )
    assert isinstance(given[1][0].count, int)
    assert order.__name__ == "order"


def test_a_value_that_only_its_type_refuses_is_told_to_the_model() -> None:
    registry = ToolRegistry()

    @registry.tool()
    def plan(days: list[date]) -> None:
        """Plan."""

    with pytest.raises(ToolError, match=r"^/days/1: "):
        registry.all_tools()["plan"].run(days=["2024-01-01", "2023-02-29"])
