"""Reads token counts as providers report them. What is missing, null or no sensible number is unknown: `None`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

from llmcore.messages import JSON

MAX_COUNT = 2**31 - 1


def count(value: JSON) -> int | None:
    """`value` as a token count, if it is one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not (math.isfinite(value) and value.is_integer()):
        return None
    return int(value) if 0 <= value <= MAX_COUNT else None


def total_of(reported: int | None, *parts: int | None) -> int | None:
    """The provider's total, else the sum of the parts where all are known.

    Some servers report a total of 0 beside parts that are not: that is no total.
    """
    if reported or (reported == 0 and not any(parts)):
        return reported
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def merged(earlier: Mapping[str, JSON] | None, later: JSON) -> Mapping[str, JSON] | None:
    """Usage that came in several pieces, field by field: the last value that is present wins. Counts only grow while an
    answer is streamed: gateways say 0 at one end of it for what they have said at the other."""
    if not isinstance(later, dict) or not later:
        return earlier
    if not earlier:
        return later
    present = {name: value for name, value in later.items() if value is not None}
    return {**earlier, **{name: _grown(earlier.get(name), value) for name, value in present.items()}}


def _grown(earlier: JSON, later: JSON) -> JSON:
    if isinstance(earlier, dict) and isinstance(later, dict):
        return merged(earlier, later)
    numbers = isinstance(earlier, int | float) and isinstance(later, int | float)
    return max(earlier, later) if numbers else later


def read_cost(raw: Mapping[str, JSON] | None) -> Decimal | None:
    """What a gateway says that the call cost, in US dollars (OpenRouter reports it among the usage)."""
    value = (raw or {}).get("cost")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        cost = Decimal(str(value))
    except InvalidOperation:
        return None
    return cost if cost.is_finite() and cost >= 0 else None
