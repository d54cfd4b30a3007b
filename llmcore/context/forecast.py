"""What a run may cost, before it has begun: from a single call without an answer to all calls with the longest."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from llmcore.usage import Prices, Usage


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """The bounds of what a run costs; `None` where a price or a bound is unknown.

    `least` is the first prompt alone. `most` is `calls` calls of `answer_tokens` each, all of which is sent again with
    the next one, as far as the window reaches; nothing of it is cached, and no tool result comes on top. These calls
    have so many `tokens`.
    """

    least: Decimal | None
    most: Decimal | None
    calls: int
    answer_tokens: int | None
    tokens: int | None = None


def forecast(
    prices: Prices, *, prompt_tokens: int, answer_tokens: int | None, window: int | None, calls: int
) -> Forecast:
    """`answer_tokens` is the most that one answer may take, `calls` the most that there may be."""
    least = prices.cost(Usage(input_tokens=prompt_tokens, output_tokens=0))
    most = total = None
    if answer_tokens is not None:
        prompts = [_prompt(prompt_tokens + number * answer_tokens, window) for number in range(calls)]
        # Each by itself: a long prompt may have another price.
        costs = [prices.cost(Usage(input_tokens=prompt, output_tokens=answer_tokens)) for prompt in prompts]
        known = [cost for cost in costs if cost is not None]
        most = sum(known, Decimal(0)) if len(known) == calls else None
        total = sum(prompts) + calls * answer_tokens
    return Forecast(least=least, most=most, calls=calls, answer_tokens=answer_tokens, tokens=total)


def _prompt(tokens: int, window: int | None) -> int:
    return tokens if window is None else min(tokens, window)
