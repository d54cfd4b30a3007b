"""What the models of the services cost, as shipped: one file for each service, with its date and source.

Prices are US dollars per million tokens, written as strings so that they stay exact. A model whose price isn't known
for sure is left out: unpriced is blank, never a guess. Where long prompts cost more, `tiers` say from which length on,
and what, if that is known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from llmcore.providers.json_text import decode_json
from llmcore.usage import Prices

# A date at the end of a name is a revision of the model, at the same price.
REVISION = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2})$")


@dataclass(frozen=True, kw_only=True, slots=True)
class ShippedPrices:
    """The prices of a model as this version knows them: since when, from which page, and what else to know of them."""

    prices: Prices
    as_of: date
    source: str
    note: str = ""


def shipped_prices(adapter: str, base_url: str, name: str) -> ShippedPrices | None:
    """What the model `name` costs at the service itself; another server may ask anything for the same model."""
    for listed in _lists():
        if adapter in listed["adapters"] and urlsplit(base_url).hostname == listed["host"]:
            return _found(listed, name)
    return None


def usual_prices(adapter: str, name: str) -> ShippedPrices | None:
    """What the model `name` costs at the usual address of this wire format."""
    return next((_found(listed, name) for listed in _lists() if adapter in listed["adapters"]), None)


def _found(listed: Mapping[str, Any], name: str) -> ShippedPrices | None:
    models = listed["models"]
    entry = models.get(name) or models.get(REVISION.sub("", name))
    if entry is None:
        return None
    prices = Prices.from_json(entry)
    unpriced = next((tier.above for tier in prices.tiers if not tier.prices.known), None)
    over = f"Prompts of more than {unpriced:,} tokens cost more; how much isn't shipped." if unpriced else ""
    return ShippedPrices(
        prices=prices,
        as_of=date.fromisoformat(listed["as_of"]),
        source=listed["source"],
        note=entry.get("note") or over,
    )


@cache
def _lists() -> tuple[Mapping[str, Any], ...]:
    found = sorted((file for file in files(__name__).iterdir() if file.name.endswith(".json")), key=lambda f: f.name)
    return tuple(decode_json(file.read_bytes()) for file in found)
