"""What a run may cost: bounds that a person can compute again."""

from __future__ import annotations

from decimal import Decimal

from llmcore.context.forecast import forecast
from llmcore.usage import Prices

PRICES = Prices(input=Decimal(2), output=Decimal(10))


def test_it_runs_from_the_prompt_alone_to_all_calls_with_the_longest_answer() -> None:
    found = forecast(PRICES, prompt_tokens=1_000, answer_tokens=500, window=None, calls=3)
    assert found.least == Decimal("0.002")
    # 1,000 + 1,500 + 2,000 tokens in, 3 × 500 out
    assert found.most == Decimal("0.009") + Decimal("0.015")


def test_no_prompt_is_longer_than_the_window() -> None:
    found = forecast(PRICES, prompt_tokens=1_000, answer_tokens=500, window=1_200, calls=3)
    assert found.most == Decimal("0.0068") + Decimal("0.015")


def test_a_single_call_is_the_prompt_and_one_answer() -> None:
    found = forecast(PRICES, prompt_tokens=1_000, answer_tokens=500, window=8_000, calls=1)
    assert found.most == Decimal("0.007")


def test_without_a_bound_or_a_price_nothing_is_claimed() -> None:  # M2
    assert forecast(PRICES, prompt_tokens=1_000, answer_tokens=None, window=8_000, calls=2).most is None
    unpriced = forecast(Prices(), prompt_tokens=1_000, answer_tokens=500, window=8_000, calls=2)
    assert (unpriced.least, unpriced.most) == (None, None)
