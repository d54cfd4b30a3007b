"""How many tokens an effort in words stands for, for models that are given a budget."""

from __future__ import annotations

from collections.abc import Mapping

from llmcore.configuration import ThinkingEffort
from llmcore.errors import ConfigurationError

# The least that Anthropic takes.
MIN_BUDGET = 1_024
BUDGETS: Mapping[ThinkingEffort, int] = {"off": 0, "low": 2_048, "medium": 8_192, "high": 24_576}


def budget_of(effort: ThinkingEffort, max_tokens: int | None) -> int:
    """The budget in tokens, below `max_tokens`, which counts thinking too. ConfigurationError where nothing is left."""
    budget = BUDGETS[effort]
    if max_tokens is None or budget < max_tokens:
        return budget
    if max_tokens <= MIN_BUDGET:
        raise ConfigurationError(
            f"This model's thinking needs at least {MIN_BUDGET:,} tokens and counts as output, so the limit of "
            f"{max_tokens:,} output tokens leaves no room for it. Raise that limit or switch thinking off."
        )
    # Half of the output for thinking, half for the answer.
    return max(max_tokens // 2, MIN_BUDGET)
