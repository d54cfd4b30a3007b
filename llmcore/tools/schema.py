"""JSON Schema from type hints: what a tool written as a plain function tells a model about its parameters."""

from __future__ import annotations

import dataclasses
import inspect
import json
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin, is_typeddict
from uuid import UUID

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from llmcore.errors import ConfigurationError
from llmcore.messages import JSON
from llmcore.tools.docstrings import read_docstring

Schema = dict[str, JSON]

DECIMAL_TEXT = r"^-?[0-9]+(\.[0-9]+)?$"
SCALARS: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    None: {"type": "null"},
    date: {"type": "string", "format": "date"},
    datetime: {"type": "string", "format": "date-time"},
    time: {"type": "string", "format": "time"},
    UUID: {"type": "string", "format": "uuid"},
    # Models write a price as a number or, where they care for its digits, as a string.
    Decimal: {"anyOf": [{"type": "number"}, {"type": "string", "pattern": DECIMAL_TEXT}]},
}
ANYTHING = frozenset({Any, object})
LISTS = (list, tuple, Sequence, Collection)
SETS = (set, frozenset, AbstractSet)
UNIONS = (Union, types.UnionType)


def schema_of_function(function: Callable[..., Any], *, skip: Collection[str] = ()) -> Schema:
    """The schema of a function's keyword arguments, without those in `skip`. ConfigurationError says which
    parameter can't be described."""
    hints = hints_of(function)
    described = read_docstring(inspect.getdoc(function)).parameters
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in skip:
            continue
        where = f"parameter {name!r} of {function.__qualname__}"
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ConfigurationError(f"{where} must have a name of its own that a model can use: no *, ** or /")
        if name not in hints:
            raise ConfigurationError(f"{where} needs a type hint")
        properties[name] = _described(schema_of(hints[name], where), described.get(name))
        if parameter.default is parameter.empty:
            required.append(name)
        else:
            _add_default(properties[name], parameter.default)
    return _object(properties, required)


def schema_of(hint: Any, where: str = "the value", inside: tuple[Any, ...] = ()) -> Schema:
    """The schema of one type hint. `where` is named in errors, `inside` are the classes around it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        # First, because what annotates (a mapping) may have no hash.
        return _annotated(schema_of(arguments[0], where, inside), arguments[1:])
    if hint in ANYTHING:
        return {}
    if hint in SCALARS:
        return dict(SCALARS[hint])
    if origin in (Required, NotRequired):
        return schema_of(arguments[0], where, inside)
    if origin is Literal:
        return _enumeration(list(arguments))
    if origin in UNIONS:
        return _union([schema_of(argument, where, inside) for argument in arguments])
    if inspect.isclass(hint) and issubclass(hint, Enum):
        return _enumeration([member.value for member in hint])
    if dataclasses.is_dataclass(hint) or is_typeddict(hint):
        return _record(hint, where, inside)
    if (container := origin or hint) in (*LISTS, *SETS):
        return _array(container, arguments, where, inside)
    if container in (dict, Mapping):
        return _mapping(arguments, where, inside)
    raise ConfigurationError(f"{where} has a type that has no JSON Schema: {hint!r}")


def hints_of(annotated: Any) -> dict[str, Any]:
    """The resolved type hints of a function or class, `Annotated` kept."""
    try:
        return typing.get_type_hints(annotated, include_extras=True)
    except NameError as error:
        raise ConfigurationError(
            f"the type hints of {annotated.__qualname__} can't be read: {error}. Import the name outside TYPE_CHECKING."
        ) from error


def fields_of(record: Any) -> tuple[dict[str, Any], list[str]]:
    """The fields of a dataclass or TypedDict with their hints, and the names of the required ones."""
    hints = hints_of(record)
    if is_typeddict(record):
        # Where annotations are texts, `__required_keys__` doesn't see NotRequired.
        marked = {name: get_origin(hint) for name, hint in hints.items()}
        needed = record.__required_keys__ - {name for name, mark in marked.items() if mark is NotRequired}
        return hints, [name for name, mark in marked.items() if name in needed or mark is Required]
    given = [field for field in dataclasses.fields(record) if field.init]
    required = [f.name for f in given if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING]
    return {field.name: hints[field.name] for field in given}, required


def check_parameters(parameters: Schema, where: str) -> None:
    """Refuse a schema that no arguments could be checked against."""
    try:
        Draft202012Validator.check_schema(parameters)
    except SchemaError as error:
        raise ConfigurationError(f"{where} has an invalid JSON Schema: {error.message}") from error
    if parameters.get("type") != "object":
        raise ConfigurationError(f"{where} needs a JSON Schema of type object")
    # A reference to another document would be fetched from wherever it points to.
    if foreign := next(foreign_references(parameters), None):
        raise ConfigurationError(f"{where} refers to another document, {foreign!r}; only references inside it are read")


def foreign_references(schema: JSON) -> typing.Iterator[str]:
    """The references of a schema to other documents."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key in ("$ref", "$dynamicRef") and isinstance(value, str) and not value.startswith("#"):
                yield value
            yield from foreign_references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from foreign_references(value)


def _record(hint: Any, where: str, inside: tuple[Any, ...]) -> Schema:
    if hint in inside:
        raise ConfigurationError(f"{where} contains itself ({hint.__name__}); give the schema by hand")
    hints, required = fields_of(hint)
    # A dataclass without a docstring gets its signature as one, which describes nothing.
    docstring = None if (hint.__doc__ or "").startswith(f"{hint.__name__}(") else hint.__doc__
    described = read_docstring(docstring)
    properties = {
        name: _described(schema_of(field, f"{name!r} in {where}", (*inside, hint)), described.parameters.get(name))
        for name, field in hints.items()
    }
    return _described(_object(properties, required), described.text)


def _array(container: Any, arguments: tuple[Any, ...], where: str, inside: tuple[Any, ...]) -> Schema:
    schema: Schema = {"type": "array"}
    if container is tuple and arguments and arguments[-1] is not Ellipsis:
        items = [schema_of(argument, where, inside) for argument in arguments]
        return {**schema, "prefixItems": items, "items": False, "minItems": len(items)}
    if arguments:
        schema["items"] = schema_of(arguments[0], where, inside)
    if container in SETS:
        schema["uniqueItems"] = True
    return schema


def _mapping(arguments: tuple[Any, ...], where: str, inside: tuple[Any, ...]) -> Schema:
    if not arguments:
        return {"type": "object"}
    if arguments[0] is not str:
        raise ConfigurationError(f"{where} must have str keys: JSON knows no others")
    return {"type": "object", "additionalProperties": schema_of(arguments[1], where, inside)}


def _object(properties: dict[str, Schema], required: list[str]) -> Schema:
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return {**schema, "additionalProperties": False}


def _enumeration(values: list[Any]) -> Schema:
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and (kind := kinds.pop()) in SCALARS:
        return {**SCALARS[kind], "enum": values}
    return {"enum": values}


def _union(members: list[Schema]) -> Schema:
    if {} in members:
        return {}
    return members[0] if len(members) == 1 else {"anyOf": members}


def _annotated(schema: Schema, extras: tuple[Any, ...]) -> Schema:
    """`Annotated[int, "how many", {"minimum": 1}]`: a text describes, a mapping adds keywords."""
    for extra in extras:
        if isinstance(extra, str):
            schema = _described(schema, extra)
        elif isinstance(extra, Mapping):
            schema = {**schema, **extra}
    return schema


def _described(schema: Schema, text: str | None) -> Schema:
    """With `text` as its description, unless it has one already."""
    return {"description": text, **schema} if text else schema


def _add_default(schema: Schema, default: Any) -> None:
    if isinstance(default, Enum):
        default = default.value
    try:
        json.dumps(default, allow_nan=False)
    except (TypeError, ValueError):
        return
    if Draft202012Validator(schema).is_valid(default):
        schema["default"] = default
