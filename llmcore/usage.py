"""Token counts and what they cost. Unknown is `None` everywhere, never 0; money is exact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from typing import Any

MILLION = Decimal(1_000_000)


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """The tokens of one provider call, or a sum of calls, under OpenTelemetry's GenAI names.

    `input_tokens` includes cached and cache-written tokens, `output_tokens` includes reasoning; adapters convert
    providers that count otherwise. `raw` keeps the provider's own fields.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    reasoning_output_tokens: int | None = None
    raw: Mapping[str, Any] | None = None

    @property
    def known(self) -> bool:
        return any(getattr(self, name) is not None for name in COUNTS)

    def to_json(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Usage:
        return cls(**data)


COUNTS = tuple(f.name for f in fields(Usage) if f.name != "raw")


def add_up(usages: Iterable[Usage | None]) -> Usage:
    """Sum the known counts; a count that no call reported stays `None`."""
    totals: dict[str, Any] = dict.fromkeys(COUNTS)
    for usage in usages:
        if usage is None:
            continue
        for name in COUNTS:
            count = getattr(usage, name)
            if count is not None:
                totals[name] = (totals[name] or 0) + count
    return Usage(**totals)


@dataclass(frozen=True, kw_only=True, slots=True)
class Prices:
    """US dollars per million tokens; `None` means unpriced.

    A cached read without a price of its own costs as much as input (that is how such providers bill it), and so
    does a cache write. Some providers ask other prices for long prompts: `tiers` has them, the shortest prompt first.
    """

    input: Decimal | None = None
    cache_read: Decimal | None = None
    cache_creation: Decimal | None = None
    output: Decimal | None = None
    tiers: tuple[PriceTier, ...] = ()

    @property
    def known(self) -> bool:
        """Whether a cost can be told; that of a tier may be unknown all the same."""
        return self.input is not None and self.output is not None

    def tier_of(self, prompt_tokens: int) -> PriceTier | None:
        """The tier that a prompt of so many tokens falls into, cached ones included; `None` below all of them."""
        return next((tier for tier in reversed(self.tiers) if prompt_tokens > tier.above), None)

    def of_prompt(self, prompt_tokens: int) -> Prices:
        """What each token of a call with such a prompt costs, its answer too: a call is in one tier as a whole."""
        tier = self.tier_of(prompt_tokens)
        return tier.prices if tier else replace(self, tiers=())

    def up_to(self, prompt_tokens: int) -> list[Prices]:
        """All prices that a prompt of at most so many tokens may be asked."""
        reached = (tier.prices for tier in self.tiers if tier.above < prompt_tokens)
        return [replace(self, tiers=()), *reached]

    def cost(self, usage: Usage | None) -> Decimal | None:
        """The exact price of the `usage` of one call, or `None` where a price or a needed count is unknown.

        Each token is in one price class only: fresh input = input − cached read − cache write.
        """
        if usage is None or usage.input_tokens is None or usage.output_tokens is None:
            return None
        prices = self.of_prompt(usage.input_tokens)
        if prices.input is None or prices.output is None:
            return None
        read = usage.cache_read_input_tokens or 0
        written = usage.cache_creation_input_tokens or 0
        fresh = max(usage.input_tokens - read - written, 0)
        read_price = prices.input if prices.cache_read is None else prices.cache_read
        write_price = prices.input if prices.cache_creation is None else prices.cache_creation
        dollars = fresh * prices.input + read * read_price + written * write_price + usage.output_tokens * prices.output
        return dollars / MILLION

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {name: None if (v := getattr(self, name)) is None else str(v) for name in PRICE_NAMES}
        return {**data, "tiers": [tier.to_json() for tier in self.tiers]} if self.tiers else data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Prices:
        prices = {name: Decimal(data[name]) for name in PRICE_NAMES if data.get(name) is not None}
        return cls(**prices, tiers=tuple(PriceTier.from_json(tier) for tier in data.get("tiers") or ()))


PRICE_NAMES = tuple(f.name for f in fields(Prices) if f.name != "tiers")


@dataclass(frozen=True, kw_only=True, slots=True)
class PriceTier:
    """The prices of calls with a prompt of more than `above` tokens. Without prices such calls are unpriced: they are
    known to cost something else, and not what."""

    above: int
    prices: Prices = field(default_factory=Prices)

    def to_json(self) -> dict[str, Any]:
        return {"above": self.above, **{name: text for name, text in self.prices.to_json().items() if text is not None}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PriceTier:
        return cls(above=data["above"], prices=Prices.from_json({name: data.get(name) for name in PRICE_NAMES}))
