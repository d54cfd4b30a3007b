"""From checked JSON to the types that a tool's parameters are annotated with: a date is a `date`, an enum a member.

Nothing is coerced: the arguments have passed the schema made from the same hints. What a schema can't say (that the
13th month doesn't exist) is a `ToolError`, which the model reads.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, NotRequired, Required, get_args, get_origin, is_typeddict
from uuid import UUID

from jsonschema import Draft202012Validator

from llmcore.errors import ToolError
from llmcore.messages import JSON
from llmcore.tools.schema import LISTS, SETS, UNIONS, fields_of, schema_of

Converter = Callable[[JSON, str], Any]  # a value and its JSON pointer


def as_is(value: JSON, pointer: str) -> Any:
    return value


def converter_of(hint: Any) -> Converter:
    """The function that makes a value of the type `hint`; `as_is` where JSON's own types will do."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Annotated, Required, NotRequired):
        return converter_of(arguments[0])
    if hint in PARSERS:
        return _scalar(PARSERS[hint])
    if origin in UNIONS:
        return _union(arguments)
    if inspect.isclass(hint) and issubclass(hint, Enum):
        return _scalar(hint)
    if dataclasses.is_dataclass(hint) or is_typeddict(hint):
        return _record(hint)
    container = origin or hint
    if container in (*LISTS, *SETS):
        return _array(container, arguments)
    if container in (dict, Mapping) and arguments and (convert := converter_of(arguments[1])) is not as_is:
        return lambda value, pointer: {k: convert(v, f"{pointer}/{k}") for k, v in value.items()}
    return as_is


def _decimal(value: float | str) -> Decimal:
    # By way of its text a number keeps the digits that the model wrote.
    return Decimal(str(value))


# JSON Schema counts 3.0 as an integer.
PARSERS: dict[Any, Callable[[Any], Any]] = {
    int: int,
    date: date.fromisoformat,
    datetime: datetime.fromisoformat,
    time: time.fromisoformat,
    UUID: UUID,
    Decimal: _decimal,
}


def _scalar(parse: Callable[[Any], Any]) -> Converter:
    def convert(value: JSON, pointer: str) -> Any:
        try:
            return parse(value)
        except (ValueError, ArithmeticError) as error:
            raise ToolError(f"{pointer}: {error}") from error

    return convert


def _union(members: tuple[Any, ...]) -> Converter:
    choices = [(Draft202012Validator(schema_of(member)), converter_of(member)) for member in members]
    if all(convert is as_is for _, convert in choices):
        return as_is

    def convert(value: JSON, pointer: str) -> Any:
        for validator, convert in choices:
            if validator.is_valid(value):
                return convert(value, pointer)
        return value

    return convert


def _record(hint: Any) -> Converter:
    converters = {name: converter_of(field) for name, field in fields_of(hint)[0].items()}

    def convert(value: JSON, pointer: str) -> Any:
        return hint(**{name: converters[name](item, f"{pointer}/{name}") for name, item in value.items()})

    return convert


def _array(container: Any, arguments: tuple[Any, ...]) -> Converter:
    fixed = container is tuple and bool(arguments) and arguments[-1] is not Ellipsis
    make = container if container in (tuple, set, frozenset) else set if container in SETS else list
    converters = [converter_of(argument) for argument in (arguments if fixed else arguments[:1])]
    if make is list and all(convert is as_is for convert in converters):
        return as_is

    def convert(value: JSON, pointer: str) -> Any:
        each = converters if fixed else (converters or [as_is]) * len(value)
        return make(convert(item, f"{pointer}/{n}") for n, (convert, item) in enumerate(zip(each, value, strict=True)))

    return convert
