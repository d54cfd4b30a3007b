"""Reads token counts as providers report them. What is missing, null or no sensible number is unknown: `None`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

from llmcore.messages import JSON
from llmcore.usage import Usage

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
    """Usage that came in several pieces, field by field: the last value that is present wins."""
    if not isinstance(later, dict) or not later:
        return earlier
    if not earlier:
        return later
    return {**earlier, **{name: value for name, value in later.items() if value is not None}}


def read_openai_usage(raw: Mapping[str, JSON] | None) -> Usage | None:
    """Usage as OpenAI Chat Completions and everything like it reports it.

    The prompt includes cached tokens there, the completion includes reasoning. DeepSeek has cache hits in a field of
    its own.
    """
    if not raw:
        return None
    prompt = _first(raw, "prompt_tokens", "input_tokens")
    completion = _first(raw, "completion_tokens", "output_tokens")
    prompt_details = _details(raw, "prompt_tokens_details", "input_tokens_details")
    completion_details = _details(raw, "completion_tokens_details", "output_tokens_details")
    cached = count(prompt_details.get("cached_tokens"))
    return Usage(
        input_tokens=prompt,
        output_tokens=completion,
        total_tokens=total_of(count(raw.get("total_tokens")), prompt, completion),
        cache_read_input_tokens=count(raw.get("prompt_cache_hit_tokens")) if cached is None else cached,
        cache_creation_input_tokens=count(prompt_details.get("cache_write_tokens")),
        reasoning_output_tokens=count(completion_details.get("reasoning_tokens")),
        raw=raw,
    )


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


def _first(raw: Mapping[str, JSON], *names: str) -> int | None:
    return next((number for name in names if (number := count(raw.get(name))) is not None), None)


def _details(raw: Mapping[str, JSON], *names: str) -> Mapping[str, JSON]:
    return next((raw[name] for name in names if isinstance(raw.get(name), dict)), {})
