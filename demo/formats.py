"""How the shop's figures look to a model."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal


def money(amount: Decimal) -> str:
    """Euros with two places. Databases without decimals add up with more of them."""
    return f"{amount:.2f}"


def moment(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
