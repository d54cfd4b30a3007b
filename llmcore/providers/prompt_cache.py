"""What is known of the services' prompt caches: from how many tokens on, in which steps, and for how long."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheRules:
    """The rules of a prompt cache as its service documents them; `None` where it doesn't.

    A prompt of fewer than `minimum_tokens` is not cached. What is read comes in multiples of `step_tokens`.
    `lifetime_s` is how long an unused prefix is kept at least, or about.
    """

    minimum_tokens: int | None = None
    step_tokens: int = 1
    lifetime_s: float | None = None


UNKNOWN = CacheRules()
# OpenAI's guide to prompt caching: automatic from 1,024 tokens on, in steps of 128, kept for five to ten minutes.
OPENAI = CacheRules(minimum_tokens=1_024, step_tokens=128, lifetime_s=300)
# Groq's guide names no minimum; what is cached expires within a few hours.
GROQ = CacheRules(lifetime_s=7_200)
# DeepSeek's guide to context caching: units of 64 tokens, kept for hours to days.
DEEPSEEK = CacheRules(minimum_tokens=64, step_tokens=64, lifetime_s=3_600)

# Anthropic's guide: five minutes from the last use, and a minimum that depends on the model.
_ANTHROPIC_LIFETIME_S = 300
_ANTHROPIC_MINIMA = (
    (("opus-5", "fable-5", "mythos-5"), 512),
    (("opus-4-5", "opus-4-6", "haiku-4-5"), 4_096),
    (("haiku-3", "3-haiku", "3-5-haiku"), 2_048),
)


def anthropic_rules(model: str) -> CacheRules:
    found = (minimum for names, minimum in _ANTHROPIC_MINIMA if any(name in model for name in names))
    return CacheRules(minimum_tokens=next(found, 1_024), lifetime_s=_ANTHROPIC_LIFETIME_S)


def gemini_rules(model: str) -> CacheRules:
    """Google's guide to implicit caching: 4,096 tokens for the Pro models, 1,024 for the others, a few minutes."""
    return CacheRules(minimum_tokens=4_096 if "pro" in model else 1_024, lifetime_s=180)
