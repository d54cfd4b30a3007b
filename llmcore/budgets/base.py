"""The words of budgets, and the small protocols that the metered client and its site know.

What a call takes at most is reserved before it goes out, in all budgets that it counts in or in none, and settled with
what it used. Costs are US dollars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Protocol

from llmcore.errors import ErrorKind, ProviderError
from llmcore.messages import JSON

# Crossing one of these parts of a limit is recorded, once in a period.
THRESHOLDS = (70, 90, 100)

Amount = int | Decimal


class Measure(StrEnum):
    """What a budget counts."""

    REQUESTS = "requests"
    TOKENS = "tokens"
    COST = "cost"


class Period(StrEnum):
    """How long a budget lasts before it begins anew; that of a run doesn't."""

    DAY = "day"
    MONTH = "month"
    RUN = "run"


@dataclass(frozen=True, kw_only=True, slots=True)
class Amounts:
    """What one or more calls take. A `cost` of `None` is unknown: the model has no price."""

    requests: int = 0
    tokens: int = 0
    cost: Decimal | None = Decimal(0)

    def of(self, measure: Measure) -> Amount | None:
        amount: Amount | None = getattr(self, measure.value)
        return amount

    def __add__(self, other: Amounts) -> Amounts:
        """The sum; what is unknown counts as nothing in it."""
        return Amounts(
            requests=self.requests + other.requests,
            tokens=self.tokens + other.tokens,
            cost=(self.cost or Decimal(0)) + (other.cost or Decimal(0)),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Allowance:
    """The most that may be used; `None` where nothing limits it."""

    requests: int | None = None
    tokens: int | None = None
    cost: Decimal | None = None

    def __bool__(self) -> bool:
        return any(self.of(measure) is not None for measure in Measure)

    def of(self, measure: Measure) -> Amount | None:
        amount: Amount | None = getattr(self, measure.value)
        return amount

    def to_json(self) -> dict[str, JSON]:
        return {
            "requests": self.requests,
            "tokens": self.tokens,
            "cost": None if self.cost is None else str(self.cost),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """What a call of `model` takes: at `most`, and what of that is gone for certain once it was `sent`."""

    model: str
    most: Amounts
    sent: Amounts


@dataclass(frozen=True, kw_only=True, slots=True)
class Shortage:
    """Why a call does not fit a budget: `needed` is what it would reserve, `None` where the model has no price.

    `used` is what calls used that have ended, `reserved` what those in flight may. `name` is empty for the ceiling of a
    run, which has no `renews_at`. With `each_user` it is the user's own part of a budget for each of them.
    """

    name: str
    period: Period
    measure: Measure
    limit: Amount
    used: Amount
    reserved: Amount
    needed: Amount | None
    model: str
    renews_at: datetime | None = None
    each_user: bool = False

    @property
    def message(self) -> str:
        if self.needed is None:
            whose = f"the budget “{self.name}”" if self.name else "one run"
            return f"The model “{self.model}” has no price, so the limit of cost of {whose} can't be kept."
        allowed = spelled(self.measure, self.limit)
        if self.period is Period.RUN:
            allows = f"One run may take {allowed}"
        else:
            whom = "each user " if self.each_user else ""
            allows = f"The budget “{self.name}” allows {whom}{allowed} a {self.period.value}"
        held = f", {figure(self.measure, self.reserved)} reserved by calls in flight" if self.reserved else ""
        sentence = (
            f"{allows}: {figure(self.measure, self.used)} used{held}, and the next call may take up to "
            f"{figure(self.measure, self.needed)}."
        )
        return sentence if self.renews_at is None else f"{sentence} It begins anew on {moment(self.renews_at)}."

    @property
    def advice(self) -> str:
        if self.needed is None:
            return "Enter the model's prices (0 if it is free), or use another model."
        if self.period is Period.RUN:
            raising = "Raise the limit of a run in its configuration or in the site's settings, then continue the run."
        else:
            raising = "Raise the budget, or wait until it begins anew; then continue the run."
        if self.measure is Measure.REQUESTS:
            return raising
        return f"{raising} With a lower “max tokens” each call needs less room."


@dataclass(frozen=True, kw_only=True, slots=True)
class Crossing:
    """What was `used` of a budget has come to `percent` of its `limit`; `name` is empty for the ceiling of a run."""

    name: str
    period: Period
    measure: Measure
    percent: int
    limit: Amount
    used: Amount
    renews_at: datetime | None = None

    def to_json(self) -> dict[str, JSON]:
        """As steps have it."""
        return {
            "name": self.name,
            "period": self.period.value,
            "measure": self.measure.value,
            "percent": self.percent,
            "limit": str(self.limit),
            "used": str(self.used),
            "renews_at": None if self.renews_at is None else self.renews_at.isoformat(),
        }


class BudgetExceeded(Exception):
    """A call doesn't fit; nothing was reserved."""

    def __init__(self, shortage: Shortage) -> None:
        super().__init__(shortage.message)
        self.shortage = shortage

    def as_error(self) -> ProviderError:
        """The failure of the call that wasn't made."""
        return ProviderError(kind=ErrorKind.BUDGET, message=self.shortage.message, hint=self.shortage.advice)


class BudgetsAway(Exception):
    """Where budgets are kept can't be reached at the moment."""

    def as_error(self) -> ProviderError:
        message = "Budgets could not be reached, so the call was not made."
        return ProviderError(kind=ErrorKind.BUDGETS_AWAY, message=message)


class Reservation(Protocol):
    """What is reserved for one call."""

    async def settle(self, used: Amounts) -> Sequence[Crossing]:
        """Count what the call used instead; what that crossed for the first time."""

    def abandon(self) -> None:
        """The call was broken off and nobody knows more of it: count what was sent. Returns at once."""


class Budgets(Protocol):
    """Where the metered client reserves."""

    async def reserve(self, need: Need, *, within_s: float) -> Reservation:
        """BudgetExceeded where it doesn't fit, BudgetsAway where nobody can say. The call ends within `within_s`."""


class BudgetStore(Protocol):
    """Keeps the budgets that one run counts in, for all processes of a site. Used on one thread; any method may raise
    BudgetsAway."""

    def reserve(self, token: str, need: Need, *, within_s: float) -> None:
        """All or nothing. BudgetExceeded: nothing. Asking again with the same token changes nothing."""

    def settle(self, token: str, used: Amounts | None) -> list[Crossing]:
        """`None`: what was sent. A token that isn't there (any more) changes nothing."""


def crossed(before: Amount, after: Amount, limit: Amount) -> list[int]:
    """The thresholds of `limit` that lie between the two, from the lowest."""
    return [percent for percent in THRESHOLDS if before * 100 < limit * percent <= after * 100]


def spelled(measure: Measure, amount: Amount) -> str:
    """With its unit: 12,000 tokens, 1 request, $0.0312."""
    if measure is Measure.COST:
        return figure(measure, amount)
    return f"{amount:,} {measure.value.removesuffix('s') if amount == 1 else measure.value}"


def figure(measure: Measure, amount: Amount) -> str:
    """12,000 or $0.0312: what is not nothing is not shown as nothing."""
    if measure is not Measure.COST:
        return f"{amount:,}"
    places = 2 if amount >= 1 or not amount else max(4, 1 - Decimal(amount).adjusted())
    return f"${amount:,.{places}f}"


def moment(at: datetime) -> str:
    return f"{at.day} {at:%B %Y at %H:%M} ({at.tzname()})"
