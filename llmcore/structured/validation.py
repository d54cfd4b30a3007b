"""Holds an answer to its schema. The answer is a stranger's: it is bounded in size, depth and time."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass

from llmcore.messages import JSON
from llmcore.providers.json_text import MAX_DEPTH, unfenced
from llmcore.tools.arguments import MAX_OBJECTION_CHARS, has_more_values, located
from llmcore.tools.judge import CHECK_S, Bounds, Unjudged, judge_of

# Each value costs the schema library time and memory, before the first that doesn't fit is known.
MAX_VALUES = 20_000
MAX_OBJECTIONS = 20
# Beyond this nobody counts on.
MAX_COUNTED = 1_000
MAX_ANSWER_CHARS = 5_000_000

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
    # Nothing is looked up by the names that a schema has for itself.
    judge = judge_of({name: part for name, part in schema.items() if name not in ("$schema", "$id")})
    found: dict[Objection, None] = {}
    try:
        with Bounds(seconds) as bounds:
            for error in judge.iter_errors(value):
                bounds.check()
                # Of several missing members each error names them all.
                found |= dict.fromkeys(Objection(*each) for each in located(error, stranger="is not in the schema"))
                if len(found) >= MAX_COUNTED:
                    break
    except Unjudged as reason:
        return [Objection("", str(reason))]
    return sorted(list(found)[:MAX_COUNTED], key=lambda objection: (objection.pointer, objection.message))
