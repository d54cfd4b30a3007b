"""Tokens: what the provider reported, how our counts came of it, what was estimated, and the cost by which prices."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from llmcore.context.learning import compared
from llmcore.errors import ConfigurationError
from llmcore.providers.price_list import ShippedPrices, shipped_prices
from llmcore.providers.registry import adapter_for
from llmcore.providers.token_counts import read_cost
from llmcore.providers.usage_fields import Formula, UsageFields
from llmcore.usage import MILLION, Prices, Usage
from playground.numbers import whole_parts
from playground.reading.boxes import json_box
from playground.reading.panels.base import Panel, Query, Tab, boxes_of
from playground.reading.step_record import StepRecord

LABELS = {
    "input_tokens": "Prompt",
    "output_tokens": "Completion",
    "cache_read_input_tokens": "From the cache",
    "cache_creation_input_tokens": "Written to the cache",
    "reasoning_output_tokens": "Reasoning",
    "total_tokens": "Together",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Derivation:
    """One of our counts as the sum of the provider's fields."""

    formula: Formula

    @property
    def label(self) -> str:
        return LABELS[self.formula.name]

    @property
    def terms(self) -> list[tuple[str, int]]:
        """The fields; of a total that isn't the provider's, our own counts."""
        return [(LABELS.get(name, name) if self.own else name, number) for name, number in self.formula.terms]

    @property
    def own(self) -> bool:
        return self.formula.name == "total_tokens" and len(self.formula.terms) > 1


@dataclass(frozen=True, kw_only=True, slots=True)
class PricedCount:
    """A line of the cost's formula: so many tokens at this price per million."""

    name: str
    css: str
    count: int
    price: Decimal | None
    percent: int = 0

    @property
    def value(self) -> int:
        return self.count

    @property
    def cost(self) -> Decimal | None:
        return None if self.price is None else self.count * self.price / MILLION


def tab(record: StepRecord) -> Tab:
    return Tab(slug="tokens", title="Tokens", read=read)


def read(record: StepRecord, query: Query) -> Panel:
    data: dict[str, Any] = dict(record.end.data) if record.end else {}
    usage = Usage.from_json(data["usage"]) if data.get("usage") else None
    priced_by = Prices.from_json(data["prices"]) if data.get("prices") else Prices()
    prompt = (usage.input_tokens if usage else None) or 0
    prices = priced_by.of_prompt(prompt)
    lines = priced(usage, prices) if usage else []
    window = (record.plan.route_of(record.first.data).get("model") or {}).get("context_window")
    raw = usage.raw if usage else None
    fields = fields_of(record)
    estimate = compared([record.first, record.end] if record.end else [record.first])
    box = json_box("usage", "Usage as the provider reported it", dict(raw)) if raw else None
    context = {
        "usage": usage,
        "lines": lines,
        "cost": Decimal(data["cost"]) if data.get("cost") is not None else None,
        "priced": prices.known,
        "tier": tier_in_words(priced_by, prompt),
        "estimate": record.first.data.get("input_tokens_estimate"),
        "off": estimate.error,
        "counted": record.plan.estimator.how,
        "derived": [Derivation(formula=formula) for formula in fields.explain(raw)] if fields else [],
        "includes": fields.note if fields else "",
        "priced_at": moment_of(record) if data.get("prices") else None,
        "listed": listed_at(record, prices, prompt),
        "model": data.get("served_model") or record.first.data.get("model"),
        "said_cost": read_cost(raw),
        "window": window,
        "box": box,
        "running": record.line.running,
        "label": ", ".join(f"{line.count:,} {line.name.lower()}" for line in lines),
    }
    return Panel(template="tokens", context=context, boxes=boxes_of([box]))


def fields_of(record: StepRecord) -> UsageFields | None:
    """What the counts of this call are made of; `None` for a wire format that this release doesn't know."""
    try:
        return adapter_for(str(record.first.data.get("adapter") or "")).usage_fields
    except ConfigurationError:
        return None


def tier_in_words(prices: Prices, prompt: int) -> str:
    """Which of the prices the call has, where they depend on the length of its prompt."""
    if tier := prices.tier_of(prompt):
        length = f"prompts of more than {tier.above:,} tokens"
        return f"They are those for {length}." if tier.prices.known else f"The model has no price for {length}."
    if prices.tiers:
        return f"They are those for prompts of up to {prices.tiers[0].above:,} tokens."
    return ""


def listed_at(record: StepRecord, prices: Prices, prompt: int) -> ShippedPrices | None:
    """The shipped list that the used prices are from; `None` where this site has its own."""
    provider = record.plan.route_of(record.first.data).get("provider") or {}
    adapter, base_url = str(provider.get("adapter") or ""), str(provider.get("base_url") or "")
    known = shipped_prices(adapter, base_url, str(record.first.data.get("model") or ""))
    return known if known is not None and known.prices.of_prompt(prompt) == prices else None


def moment_of(record: StepRecord) -> datetime | None:
    """When the call had ended, which is when its prices were looked at."""
    end, begun = record.end, record.run.started_at
    return begun + timedelta(milliseconds=end.started_ms + end.duration_ms) if end and begun else None


def priced(usage: Usage, prices: Prices) -> list[PricedCount]:
    """Each reported token in exactly one line, at the price that `Prices.cost` counts it with."""
    lines: list[PricedCount] = []
    if usage.input_tokens is not None:
        read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
        read_price = prices.input if prices.cache_read is None else prices.cache_read
        write_price = prices.input if prices.cache_creation is None else prices.cache_creation
        fresh = max(usage.input_tokens - read - written, 0)
        lines += [
            PricedCount(name="Cached prompt", css="cached", count=read, price=read_price),
            PricedCount(name="Written to cache", css="written", count=written, price=write_price),
            PricedCount(
                name="Prompt" if usage.cache_read_input_tokens is None else "Fresh prompt",
                css="fresh",
                count=fresh,
                price=prices.input,
            ),
        ]
    if usage.output_tokens is not None:
        reasoning = usage.reasoning_output_tokens or 0
        name = "Completion" if usage.reasoning_output_tokens is None else "Visible completion"
        visible = max(usage.output_tokens - reasoning, 0)
        lines += [
            PricedCount(name=name, css="out", count=visible, price=prices.output),
            PricedCount(name="Reasoning", css="reason", count=reasoning, price=prices.output),
        ]
    shown = [line for line in lines if line.count]
    percents = whole_parts([line.count for line in shown])
    return [
        PricedCount(name=line.name, css=line.css, count=line.count, price=line.price, percent=percent)
        for line, percent in zip(shown, percents, strict=True)
    ]
