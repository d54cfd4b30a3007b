"""Checks on a request that was sent: paths into its body, and operators on what is there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from llmcore.management.wire_check.server import Received
from llmcore.messages import JSON, canonical_json

MISSING = object()
PLACES = frozenset({"path", "header", "url"})


def failed_checks(checks: Sequence[Mapping[str, JSON]], request: Received) -> Iterator[str]:
    """What is wrong with `request`, one line for each check that fails."""
    try:
        body = json.loads(request.body)
    except ValueError:
        yield "the request's body is not JSON"
        return
    for check in checks:
        place = place_of(check)
        operators = {name: value for name, value in check.items() if name not in PLACES}
        if place is None or not operators:
            yield f"this check can't be read: {shown(check)}"
            continue
        found = Found(check, body, request)
        for operator, wanted in operators.items():
            test = OPERATORS.get(operator)
            if test is None:
                yield f"{place}: there is no check {operator!r}"
            elif not test(found, wanted):
                yield f"{place}: {operator} {shown(wanted)} does not hold, it is {found}"


def place_of(check: Mapping[str, JSON]) -> str | None:
    if "path" in check:
        return str(check["path"])
    if "header" in check:
        return f"header {check['header']}"
    return "url" if check.get("url") else None


class Found:
    """What a check looks at: `values` are all that its path leads to, `each` says that the path has a `*`."""

    def __init__(self, check: Mapping[str, JSON], body: JSON, request: Received) -> None:
        self.body = body
        self.path = str(check.get("path", ""))
        self.each = "*" in self.path.split(".")
        if "path" in check:
            self.values = list(resolve(body, self.path))
        elif "header" in check:
            self.values = [request.headers.get(str(check["header"]).lower(), MISSING)]
        else:
            self.values = [request.url]

    @property
    def value(self) -> Any:
        """The one value, or the list of all behind a `*`."""
        return self.values if self.each else self.values[0]

    def __str__(self) -> str:
        return "missing" if self.value is MISSING else shown(self.value)


def resolve(value: JSON, path: str) -> Iterator[Any]:
    """All values at a dotted path; `*` stands for each element, a negative number counts from the end.

    Without `*` there is exactly one, `MISSING` where the path leads nowhere; behind a `*` what is missing is left out.
    """
    found = [value]
    each = False
    for step in path.split("."):
        each = each or step == "*"
        found = [inner for item in found for inner in inside(item, step)]
        found = [item for item in found if item is not MISSING] if each else found
    yield from found


def inside(value: Any, step: str) -> list[Any]:
    if step == "*":
        children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return list(children)
    if isinstance(value, list) and re.fullmatch(r"-?\d+", step):
        index = int(step)
        return [value[index]] if -len(value) <= index < len(value) else [MISSING]
    return [value.get(step, MISSING)] if isinstance(value, dict) else [MISSING]


def same(value: Any, wanted: JSON) -> bool:
    """Equality as JSON has it: true is not 1. A missing value is like null."""
    if value is MISSING:
        return wanted is None
    return type(value) is type(wanted) and canonical_json(value) == canonical_json(wanted)


def holds(value: Any, wanted: JSON) -> bool:
    """Whether `value` contains `wanted`: members of an object, an element of a list, a piece of a text."""
    if isinstance(value, dict) and isinstance(wanted, dict):
        return all(
            name in value and (same(value[name], item) or holds(value[name], item)) for name, item in wanted.items()
        )
    if isinstance(value, list):
        if isinstance(wanted, list) and wanted:
            return all(holds(value, item) for item in wanted)
        return any(same(item, wanted) or (isinstance(wanted, dict) and holds(item, wanted)) for item in value)
    if isinstance(value, dict) and isinstance(wanted, str):
        return wanted in value
    return isinstance(value, str) and isinstance(wanted, str) and wanted in value


def text_of(value: Any) -> str:
    if value is MISSING:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def size(value: Any) -> int | None:
    return len(value) if isinstance(value, str | list | dict) else None


def shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 200 else text[:200] + "…"


def _equals(found: Found, wanted: JSON) -> bool:
    if found.each:
        return same(found.values, wanted) or (bool(found.values) and all(same(value, wanted) for value in found.values))
    return same(found.value, wanted)


def _contains(found: Found, wanted: JSON) -> bool:
    return holds(found.value, wanted) or (found.each and any(holds(value, wanted) for value in found.values))


def _contains_text(found: Found, wanted: JSON) -> bool:
    return isinstance(wanted, str) and any(wanted in text_of(value) for value in found.values if value is not MISSING)


def _not_contains(found: Found, wanted: JSON) -> bool:
    return not any(str(wanted) in text_of(value) or holds(value, wanted) for value in found.values)


def _matches(found: Found, wanted: JSON) -> bool:
    texts = [value for value in found.values if isinstance(value, str)]
    return bool(texts) and len(texts) == len(found.values) and all(re.search(str(wanted), text) for text in texts)


def _equals_path(found: Found, wanted: JSON) -> bool:
    others = list(resolve(found.body, str(wanted)))
    return MISSING not in found.values and same(found.values, others)


def _same_set_as(found: Found, wanted: JSON) -> bool:
    mine, others = (
        elements(found.values, found.each),
        elements(list(resolve(found.body, str(wanted))), "*" in str(wanted)),
    )
    return bool(mine) and {canonical_json(value) for value in mine} == {canonical_json(value) for value in others}


def _unique(found: Found, wanted: JSON) -> bool:
    values = [canonical_json(value) for value in elements(found.values, found.each)]
    return bool(values) and (len(set(values)) == len(values)) is bool(wanted)


def _length(found: Found, wanted: JSON) -> bool:
    sizes = measured(found)
    return bool(sizes) and all(count == wanted for count in sizes)


def _max_length(found: Found, wanted: JSON) -> bool:
    sizes = measured(found)
    return bool(sizes) and all(count is not None and count <= wanted for count in sizes)


def _none_equals(found: Found, wanted: JSON) -> bool:
    return not any(same(value, wanted) for value in elements(found.values, found.each))


def elements(values: list[Any], each: bool) -> list[Any]:
    """The values behind a `*`; without one, those of the list that the path leads to, or the one value."""
    if not each and len(values) == 1 and isinstance(values[0], list):
        return list(values[0])
    return [value for value in values if value is not MISSING]


def measured(found: Found) -> list[int | None]:
    """The sizes to look at: of how many a final `*` stands for, else of each value."""
    if found.path.endswith("*"):
        return [len(found.values)]
    return [size(value) for value in found.values]


OPERATORS: Mapping[str, Callable[[Found, JSON], bool]] = {
    "equals": _equals,
    "contains": _contains,
    "contains_text": _contains_text,
    "not_contains": _not_contains,
    "matches": _matches,
    "equals_path": _equals_path,
    "same_set_as": _same_set_as,
    "unique": _unique,
    "length": _length,
    "max_length": _max_length,
    "none_equals": _none_equals,
}
