"""Holds a stranger's value to a JSON Schema within bounds of time and memory, and without fetching anything.

The schema may be a stranger's, too: that of a tool of another server, or of an imported run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cache
from typing import Any, NoReturn, Self

from llmcore.messages import JSON, canonical_json

# What one check may take in all, patterns included.
CHECK_S = 2.0
# What the schema library may note, of alternatives too: each takes more than a kilobyte.
MAX_ERRORS = 20_000
MAX_ERROR_CHARS = 300
# After so many rules the clock is looked at, which takes as long as a rule.
STEPS = 32


class Unjudged(Exception):
    """Whether a value fits its schema could not be found out; the text says why."""


class Bounds:
    """What one check may take, in time and in memory: a context for what a judge does, on one thread.

    Unjudged where that would take too much, or where the schema itself is at fault. `check` is to be called between
    one error and the next.
    """

    def __init__(self, seconds: float = CHECK_S) -> None:
        self._seconds = seconds
        # Of this thread's own time: a busy machine is no fault of a value.
        self._ends = time.thread_time() + seconds
        self.steps = 0
        self._errors = 0
        self._before: Bounds | None = None

    def __enter__(self) -> Self:
        self._before, _running.bounds = _running.bounds, self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        _running.bounds = self._before
        if error is None or isinstance(error, Unjudged):
            return
        from referencing.exceptions import Unresolvable

        if isinstance(error, RecursionError):
            raise Unjudged("it can't be checked: the schema leads in a circle") from None
        if isinstance(error, Unresolvable):
            raise Unjudged("it can't be checked: the schema refers to what isn't in it") from None

    @property
    def left_s(self) -> float:
        return max(self._ends - time.thread_time(), 0.001)

    def check(self) -> None:
        if time.thread_time() > self._ends:
            self.end()

    def end(self) -> NoReturn:
        raise Unjudged(f"it takes more than {self._seconds:g} s to check; keep it shorter and simpler")

    def noted(self, error: Any) -> Any:
        """The error as a rule makes it, without most of what it quotes: that may be the whole value, each time."""
        if isinstance(error.validator, str):
            # Of a part that was noted already.
            return error
        self._errors += 1
        if self._errors > MAX_ERRORS:
            raise Unjudged(f"it breaks the rules in more than {MAX_ERRORS:,} ways; keep it shorter and simpler")
        if len(error.message) > MAX_ERROR_CHARS:
            error.message = f"{error.message[:MAX_ERROR_CHARS]}…"
            # As every exception it keeps what it was made of.
            error.args = (error.message,)
        return error


class _Running(threading.local):
    """The check that this thread is at."""

    bounds: Bounds | None = None


_running = _Running()


def judge_of(schema: Mapping[str, JSON]) -> Any:
    """A validator of the schema library that fetches nothing, to be used within `Bounds`."""
    from referencing import Registry

    return _judge_class()(dict(schema), registry=Registry())


@cache
def _judge_class() -> Any:
    # Imported with the first value: it takes a third of the time that the whole runtime does without it.
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    rules = {**Draft202012Validator.VALIDATORS, **_own_rules()}
    judge: Any = extend(Draft202012Validator, {name: _bounded(rule) for name, rule in rules.items()})  # type: ignore[no-untyped-call]
    # A part of a schema that names another dialect would go on with the library's own judge for that.
    judge.evolve = _evolve
    return judge


def _evolve(judge: Any, **changes: Any) -> Any:
    """The same judge for a part of the schema, whatever dialect that says to be of."""
    changes.setdefault("schema", judge.schema)
    changes.setdefault("_resolver", judge._resolver)
    return type(judge)(registry=judge._registry, format_checker=judge.format_checker, **changes)


def _bounded(rule: Callable[..., Any]) -> Callable[..., Iterable[Any]]:
    def judged(validator: Any, value: Any, instance: Any, schema: Any) -> Iterable[Any]:
        bounds: Any = _running.bounds
        bounds.steps += 1
        if bounds.steps % STEPS == 0:
            bounds.check()
        found = rule(validator, value, instance, schema)
        # No generator: another frame for each level would use up the stack.
        return () if found is None else map(bounds.noted, found)

    return judged


def _own_rules() -> dict[str, Callable[..., Any]]:
    """The rules whose time a value could stretch beyond all bounds, and the one that not every number can be held to
    as the library does it."""
    from jsonschema.exceptions import ValidationError

    def pattern(validator: Any, value: str, instance: Any, schema: Any) -> Iterator[Any]:
        if isinstance(instance, str) and not _matches(value, instance):
            yield ValidationError(f"{instance!r} does not match {value!r}")

    def pattern_properties(validator: Any, value: dict[str, Any], instance: Any, schema: Any) -> Iterator[Any]:
        if isinstance(instance, dict):
            for each, subschema in value.items():
                for name, item in instance.items():
                    if _matches(each, name):
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
        extra = [name for name in instance if name not in known and not any(_matches(p, name) for p in patterns)]
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


def _matches(pattern: str, text: str) -> bool:
    # Few schemas have patterns.
    import regex

    bounds = _running.bounds
    assert bounds is not None
    try:
        return regex.search(pattern, text, timeout=bounds.left_s) is not None
    except TimeoutError:
        bounds.end()
    except regex.error as error:
        raise Unjudged(f"it can't be checked: the schema has a pattern that is none ({error})") from None


def _as_compared(value: JSON) -> JSON:
    """JSON knows one kind of number: 1.0 is 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _as_compared(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_as_compared(item) for item in value]
    return value
