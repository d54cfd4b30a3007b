"""Checks a call's arguments before anything runs, and words the objections so that a model can correct itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from llmcore.messages import JSON
from llmcore.providers.json_text import decode_json
from llmcore.tools.judge import CHECK_S, MAX_ERROR_CHARS, Bounds, Unjudged, judge_of

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

# Each value that doesn't fit costs the schema library time and memory, before the first of them is known.
MAX_VALUES = 10_000
MAX_OBJECTIONS = 10
MAX_OBJECTION_CHARS = MAX_ERROR_CHARS
# Names in an answer may be as long as the whole of it, and stand in the pointer to each place in it.
MAX_NAME_CHARS = 100
MAX_POINTER_CHARS = 1_000


def explain_undecodable(raw: str | None) -> str:
    """Why `raw` is not a JSON object, in words for the model."""
    try:
        value = decode_json(raw or "")
        problem = f"they are {_kind_of(value)}, not a JSON object"
    except ValueError as error:
        problem = f"they are not valid JSON ({error})"
    return f"The arguments of this call can't be read: {problem}. Call the tool again with one JSON object."


def validator_for(parameters: Mapping[str, JSON]) -> Any:
    """The judge of arguments for a tool with these parameters."""
    return judge_of(parameters)


def objections(validator: Any, arguments: dict[str, JSON], *, seconds: float = CHECK_S) -> list[str]:
    """What the schema has against `arguments`, each with a JSON pointer to the place."""
    if has_more_values(arguments, MAX_VALUES):
        return [f"the arguments: hold more than {MAX_VALUES:,} values; split them over several calls"]
    errors = []
    try:
        with Bounds(seconds) as bounds:
            for error in validator.iter_errors(arguments):
                bounds.check()
                errors.append(error)
    except Unjudged as reason:
        return [f"the arguments: {reason}"]
    errors.sort(key=lambda error: [str(step) for step in error.absolute_path])
    # Of several missing members each error names them all.
    lines = (f"{where or 'the arguments'}: {what}" for error in errors for where, what in located(error))
    found = list(dict.fromkeys(lines))
    if len(found) > MAX_OBJECTIONS:
        found[MAX_OBJECTIONS:] = [f"and {len(found) - MAX_OBJECTIONS} more"]
    return found


def explain_objections(found: list[str]) -> str:
    lines = "\n".join(f"- {line}" for line in found)
    return f"The arguments of this call don't fit the tool's schema:\n{lines}\nCorrect them and call the tool again."


def pointer_to(path: Iterable[str | int]) -> str:
    """The JSON pointer (RFC 6901) of a path; where it would be very long, only as much of it as tells the place."""
    steps = (shortened(str(step), MAX_NAME_CHARS).replace("~", "~0").replace("/", "~1") for step in path)
    return shortened("".join(f"/{step}" for step in steps), MAX_POINTER_CHARS)


def shortened(text: str, chars: int = MAX_OBJECTION_CHARS) -> str:
    return text if len(text) <= chars else f"{text[:chars]}…"


def has_more_values(value: JSON, bound: int) -> bool:
    """Whether `value` holds more than `bound` values, itself and those inside others counted."""
    stack = [value]
    while stack and bound >= 0:
        item = stack.pop()
        bound -= 1
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return bool(stack)


def located(error: ValidationError, *, stranger: str = "is not a parameter") -> list[tuple[str, str]]:
    """What an error says, each with its JSON pointer. A `stranger` is a member that the schema doesn't know."""
    if inner := _closest_alternative(error):
        return [found for each in inner for found in located(each, stranger=stranger)]
    where = pointer_to(error.absolute_path)
    if error.validator == "required":
        there = set(_names(error.instance))
        missing = [name for name in _names(error.validator_value) if name not in there]
        return [(where + pointer_to([name]), "is required") for name in missing]
    if error.validator == "additionalProperties" and isinstance(error.schema, dict):
        known = error.schema.get("properties", {})
        extra = [name for name in _names(error.instance) if name not in known]
        what = shortened(f"{stranger}; known are {', '.join(known)}")
        return [(where + pointer_to([name]), what) for name in extra]
    return [(where, shortened(error.message))]


def _closest_alternative(error: ValidationError) -> list[ValidationError]:
    """Of an "anyOf" the errors of the one alternative that was meant, if that can be told: null is no help to anyone,
    and a value of another type was meant for another alternative."""
    by_alternative: dict[Any, list[ValidationError]] = {}
    for inner in error.context or ():
        by_alternative.setdefault(inner.schema_path[0], []).append(inner)
    candidates = [errors for errors in by_alternative.values() if errors[0].validator_value != "null"]
    of_the_type = [errors for errors in candidates if errors[0].validator != "type" or errors[0].path]
    chosen = of_the_type if len(of_the_type) == 1 else candidates
    return chosen[0] if len(chosen) == 1 else []


def _names(value: Any) -> list[str]:
    return [str(name) for name in value]


def _kind_of(value: JSON) -> str:
    match value:
        case list():
            return "an array"
        case str():
            return "a string"
        case bool():
            return "a boolean"
        case None:
            return "null"
        case _:
            return "a number"
