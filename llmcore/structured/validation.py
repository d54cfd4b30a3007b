"""Holds an answer to its schema. The answer is a stranger's: it is bounded in size, depth and time."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

from llmcore.messages import JSON, canonical_json
from llmcore.providers.json_text import MAX_DEPTH
from llmcore.tools.arguments import MAX_OBJECTION_CHARS, has_more_values, located, shortened

# Each value costs the schema library time and memory, before the first that doesn't fit is known.
MAX_VALUES = 20_000
MAX_OBJECTIONS = 20
# Beyond this nobody counts on.
MAX_COUNTED = 1_000
# What the schema library may note, of alternatives too: each takes more than a kilobyte.
MAX_ERRORS = 20_000
MAX_ANSWER_CHARS = 5_000_000
# What the check of one answer may take in all, patterns included.
CHECK_S = 2.0

# Many models put their JSON into a Markdown fence; what is between is taken as it stands.
_FENCED = re.compile(r"\s*```(?:json|JSON)?[ \t]*\r?\n(?P<json>.*?)\r?\n?```\s*", re.DOTALL)
_NUMBER = re.compile(r"-?\d+")
# Python converts longer ones in quadratic time, or refuses to.
MAX_DIGITS = 1_000
# How JSON spells a half of a character, or one of two that are a whole.
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class Objection:
    """What is wrong at one place of an answer, which `pointer` (RFC 6901) names; empty for the whole."""

    pointer: str
    message: str

    def __str__(self) -> str:
        return f"{self.pointer or 'the answer'}: {self.message}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """An answer held to a schema. `text` is its JSON exactly as the model wrote it, without the fence around it where
    it was `fenced`; `count` is that of all objections up to MAX_COUNTED, of which the first are here."""

    text: str
    value: JSON = None
    fenced: bool = False
    objections: tuple[Objection, ...] = ()
    count: int = 0

    @property
    def valid(self) -> bool:
        return not self.objections

    @property
    def data(self) -> bytes:
        """The bytes of the answer, unchanged. A broken answer may have characters that are none."""
        return self.text.encode("utf-8", "surrogatepass")

    def facts(self) -> dict[str, JSON]:
        """What can be told of it without its contents."""
        return {
            "valid": self.valid,
            "count": self.count,
            "fenced": self.fenced,
            "bytes": len(self.data),
            "answer_sha256": hashlib.sha256(self.data).hexdigest(),
        }


class _GivenUp(Exception):
    """A check takes too much; the text says of the answer why."""


def check_answer(schema: JSON, answer: str, *, seconds: float = CHECK_S) -> Check:
    """Never raises for what the model wrote."""
    text, fenced = unfenced(answer)
    try:
        value = read_answer(text)
    except ValueError as error:
        objection = Objection("", f"is no JSON: {error}"[:MAX_OBJECTION_CHARS])
        return Check(text=text, fenced=fenced, objections=(objection,), count=1)
    objections = _objections(schema, value, seconds)
    kept = tuple(objections[:MAX_OBJECTIONS])
    return Check(text=text, value=value, fenced=fenced, objections=kept, count=len(objections))


def unfenced(answer: str) -> tuple[str, bool]:
    """The answer without a Markdown fence that is around the whole of it, and whether there was one."""
    match = _FENCED.fullmatch(answer) if "```" in answer[:100] else None
    return (match["json"], True) if match else (answer, False)


def read_answer(text: str) -> JSON:
    """The value of strict JSON. ValueError for all else, and for what two readers could understand differently: a
    member that stands twice, numbers beyond all bounds, half of a character."""
    if len(text) > MAX_ANSWER_CHARS:
        raise ValueError(f"it has more than {MAX_ANSWER_CHARS:,} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it holds half of a character, which is no Unicode") from None
    try:
        value = _reader.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    if _depth_over(value, MAX_DEPTH):
        raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
    if _HALF.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("it spells half of a character, which is no Unicode") from None
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not allowed in JSON")


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number has more than {MAX_DIGITS:,} digits")
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("a number is out of range")
    return value


def _members(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the member {twice[:60]!r} stands twice in an object")
    return members


_reader = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_int=_integer, parse_float=_finite, object_pairs_hook=_members
)


def _depth_over(value: JSON, bound: int) -> bool:
    level = [value]
    for _ in range(bound):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True


def _objections(schema: JSON, value: JSON, seconds: float) -> list[Objection]:
    if has_more_values(value, MAX_VALUES):
        return [Objection("", f"holds more than {MAX_VALUES:,} values")]
    from referencing.exceptions import Unresolvable

    effort = _Effort(seconds)
    found: dict[Objection, None] = {}
    try:
        for error in _validator(schema, effort).iter_errors(value):
            effort.check()
            # Of several missing members each error names them all.
            found |= dict.fromkeys(Objection(*each) for each in located(error, stranger="is not in the schema"))
            if len(found) >= MAX_COUNTED:
                break
    except _GivenUp as reason:
        return [Objection("", str(reason))]
    except RecursionError:
        return [Objection("", "can't be checked: the schema leads in a circle")]
    except Unresolvable:
        # A schema of another site, in a run that was imported. Nothing is fetched.
        return [Objection("", "can't be checked: the schema refers to what isn't in it")]
    return sorted(list(found)[:MAX_COUNTED], key=lambda objection: (objection.pointer, objection.message))


class _Effort:
    """What one check may take, in time and in memory."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        # Of this thread's own time: a busy machine is no fault of an answer.
        self._ends = time.thread_time() + seconds
        self._errors = 0

    @property
    def left_s(self) -> float:
        return max(self._ends - time.thread_time(), 0.001)

    def check(self) -> None:
        if time.thread_time() > self._ends:
            self.end()

    def end(self) -> NoReturn:
        raise _GivenUp(f"takes more than {self._seconds:g} s to check; keep it shorter and simpler")

    def noted(self, error: Any) -> Any:
        """The error as a rule makes it, without most of what it quotes: that may be the whole answer, each time."""
        if isinstance(error.validator, str):
            # Of a part that was noted already.
            return error
        self._errors += 1
        if self._errors > MAX_ERRORS:
            raise _GivenUp(f"breaks the rules in more than {MAX_ERRORS:,} ways; keep it shorter and simpler")
        error.message = shortened(error.message)
        # As every exception it keeps what it was made of.
        error.args = (error.message,)
        return error


def _validator(schema: JSON, effort: _Effort) -> Any:
    """A judge that fetches nothing and gives up in time."""
    # Imported with the first answer, as for the arguments of tools: it takes longer than the whole runtime without it.
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend
    from referencing import Registry

    rules = {**Draft202012Validator.VALIDATORS, **_own_rules(effort)}
    # With a dialect named, the library would go on with its own judge for it.
    plain = {name: part for name, part in schema.items() if name not in ("$schema", "$id")}
    judge: Any = extend(  # type: ignore[no-untyped-call]
        Draft202012Validator, {name: _bounded(rule, effort) for name, rule in rules.items()}
    )
    return judge(plain, registry=Registry())


def _bounded(rule: Callable[..., Any], effort: _Effort) -> Callable[..., Iterable[Any]]:
    def judged(validator: Any, value: Any, instance: Any, schema: Any) -> Iterable[Any]:
        effort.check()
        # No generator: another frame for each level would use up the stack.
        return map(effort.noted, rule(validator, value, instance, schema) or ())

    return judged


def _own_rules(effort: _Effort) -> dict[str, Callable[..., Any]]:
    """The rules whose time an answer could stretch beyond all bounds, and the one that not every number can be held to
    as the library does it."""
    import regex
    from jsonschema.exceptions import ValidationError

    def matches(pattern: str, text: str) -> bool:
        try:
            return regex.search(pattern, text, timeout=effort.left_s) is not None
        except TimeoutError:
            effort.end()

    def pattern(validator: Any, value: str, instance: Any, schema: Any) -> Iterator[Any]:
        if isinstance(instance, str) and not matches(value, instance):
            yield ValidationError(f"{instance!r} does not match {value!r}")

    def pattern_properties(validator: Any, value: dict[str, Any], instance: Any, schema: Any) -> Iterator[Any]:
        if isinstance(instance, dict):
            for each, subschema in value.items():
                for name, item in instance.items():
                    if matches(each, name):
                        yield from validator.descend(item, subschema, path=name, schema_path=each)

    def unique_items(validator: Any, value: bool, instance: Any, schema: Any) -> Iterator[Any]:
        if not value or not isinstance(instance, list):
            return
        if len({canonical_json(_as_compared(item)) for item in instance}) < len(instance):
            yield ValidationError("has the same item more than once")

    def additional_properties(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if not isinstance(instance, dict):
            return
        known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        extra = [name for name in instance if name not in known and not any(matches(p, name) for p in patterns)]
        if isinstance(value, dict):
            for name in extra:
                yield from validator.descend(instance[name], value, path=name)
        elif not value and extra:
            yield ValidationError("has members that the schema doesn't know")

    def multiple_of(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        # By its decimals: as a float, a large number overflows, and 0.3 is no multiple of 0.1.
        if validator.is_type(instance, "number") and Fraction(repr(instance)) % Fraction(repr(value)):
            yield ValidationError(f"{instance!r} is not a multiple of {value!r}")

    return {
        "multipleOf": multiple_of,
        "pattern": pattern,
        "patternProperties": pattern_properties,
        "uniqueItems": unique_items,
        "additionalProperties": additional_properties,
    }


def _as_compared(value: JSON) -> JSON:
    """JSON knows one kind of number: 1.0 is 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _as_compared(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_as_compared(item) for item in value]
    return value
