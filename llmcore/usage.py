"""Token counts and what they cost. Unknown is `None` everywhere, never 0; money is exact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
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
    does a cache write.
    """

    input: Decimal | None = None
    cache_read: Decimal | None = None
    cache_creation: Decimal | None = None
    output: Decimal | None = None

    def cost(self, usage: Usage | None) -> Decimal | None:
        """The exact price of `usage`, or `None` where a price or a needed count is unknown.

        Each token is in one price class only: fresh input = input − cached read − cache write.
        """
        if usage is None or self.input is None or self.output is None:
            return None
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        read = usage.cache_read_input_tokens or 0
        written = usage.cache_creation_input_tokens or 0
        fresh = max(usage.input_tokens - read - written, 0)
        read_price = self.input if self.cache_read is None else self.cache_read
        write_price = self.input if self.cache_creation is None else self.cache_creation
        dollars = fresh * self.input + read * read_price + written * write_price + usage.output_tokens * self.output
        return dollars / MILLION

    def to_json(self) -> dict[str, str | None]:
        return {f.name: None if (v := getattr(self, f.name)) is None else str(v) for f in fields(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, str | None]) -> Prices:
        return cls(**{name: None if value is None else Decimal(value) for name, value in data.items()})
