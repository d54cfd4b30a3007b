"""Looks orders up by filters that a model wrote: Django's lookups, of an allow-list of fields, with checked values."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.dateparse import parse_date, parse_datetime

from demo.models import Order, Payment
from llmcore.errors import ToolError
from llmcore.redaction import storable

TEXT_LOOKUPS = ("exact", "iexact", "icontains", "istartswith", "in")
NUMBER_LOOKUPS = ("exact", "gt", "gte", "lt", "lte", "in")
TIME_LOOKUPS = ("date", "gt", "gte", "lt", "lte")
CHOICE_LOOKUPS = ("exact", "in")
MOST_FILTERS = 10
MOST_VALUES = 50
LONGEST_TEXT = 200
MOST_EUROS = 10**6


@dataclass(frozen=True, slots=True)
class Field:
    """A field that may be filtered by: its lookups, how a value is read, and whether it tells who the customer is."""

    lookups: tuple[str, ...]
    read: Callable[[Any, str], Any]
    personal: bool = False


def read_text(value: Any, name: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise ToolError(f"“{name}” takes a text of at most {LONGEST_TEXT} characters.")
    # Not every database takes NUL and lone surrogates.
    if storable(value) != value:
        raise ToolError(f"“{name}” holds a character that is none.")
    return value


def read_amount(value: Any, name: str) -> Decimal:
    try:
        # By way of its text a number keeps the digits that the model wrote.
        amount = Decimal(str(value)) if not isinstance(value, bool) else Decimal("NaN")
    except InvalidOperation:
        amount = Decimal("NaN")
    # Compared before anything is computed, since a huge exponent makes arithmetic overflow.
    if not amount.is_finite() or not -MOST_EUROS < amount < MOST_EUROS:
        raise ToolError(f"“{name}” takes an amount in euros such as 64.90, not {json.dumps(value)[:60]}.")
    return amount


def read_time(value: Any, name: str) -> datetime:
    """A day means its first moment. What has no time zone is UTC, as all times of the shop."""
    moment: datetime | None = None
    try:
        if isinstance(value, str) and (day := parse_date(value)):
            moment = datetime.combine(day, time())
        elif isinstance(value, str):
            moment = parse_datetime(value)
    except ValueError:
        moment = None
    if moment is None or not 2000 <= moment.year <= 2100:
        raise ToolError(f"“{name}” takes a day or time such as 2026-11-21 or 2026-11-21T09:15:00Z.")
    return moment.replace(tzinfo=moment.tzinfo or UTC)


def read_choice(choices: Collection[str]) -> Callable[[Any, str], str]:
    def read(value: Any, name: str) -> str:
        if value not in choices:
            raise ToolError(f"“{name}” is one of {', '.join(choices)}; not {json.dumps(value)[:60]}.")
        return str(value)

    return read


FIELDS: dict[str, Field] = {
    "carrier": Field(TEXT_LOOKUPS, read_text),
    "created": Field(TIME_LOOKUPS, read_time),
    "customer__country": Field(TEXT_LOOKUPS, read_text),
    "customer__email": Field(TEXT_LOOKUPS, read_text, personal=True),
    "customer__name": Field(TEXT_LOOKUPS, read_text, personal=True),
    "lines__product__sku": Field(TEXT_LOOKUPS, read_text),
    "number": Field(TEXT_LOOKUPS, read_text),
    "payments__amount": Field(NUMBER_LOOKUPS, read_amount),
    "payments__method": Field(CHOICE_LOOKUPS, read_choice(Payment.Method.values)),
    "payments__reference": Field(TEXT_LOOKUPS, read_text),
    "payments__state": Field(CHOICE_LOOKUPS, read_choice(Payment.State.values)),
    "status": Field(CHOICE_LOOKUPS, read_choice(Order.Status.values)),
    "total": Field(NUMBER_LOOKUPS, read_amount),
    "tracking": Field(TEXT_LOOKUPS, read_text),
}


def find_orders(filters: Mapping[str, Any], *, personal: bool) -> QuerySet[Order]:
    """The orders that fit all filters. Without `personal` there is no looking for a person's orders."""
    if len(filters) > MOST_FILTERS:
        raise ToolError(f"At most {MOST_FILTERS} filters at once.")
    fields = {name: field for name, field in FIELDS.items() if personal or not field.personal}
    condition = Q()
    for key, value in filters.items():
        condition &= Q(condition_of(key, value, fields))
    # Two filters on payments mean one payment that fits both.
    return Order.objects.filter(condition).distinct()


def condition_of(key: str, value: Any, fields: Mapping[str, Field]) -> tuple[str, Any]:
    name, lookup = resolve(key, fields)
    field = fields[name]
    if lookup == "in":
        if not isinstance(value, list) or len(value) > MOST_VALUES:
            raise ToolError(f"“{key[:60]}” takes a list of at most {MOST_VALUES} values.")
        return f"{name}__in", [field.read(item, key) for item in value]
    read = field.read(value, key)
    return f"{name}__{lookup}", read.date() if lookup == "date" else read


def resolve(key: str, fields: Mapping[str, Field]) -> tuple[str, str]:
    """The field and the lookup of a filter's key, in the words Django has for those that don't exist."""
    name = next((name for name in fields if key == name or key.startswith(f"{name}__")), None)
    if name is None:
        raise ToolError(f"Cannot resolve keyword '{key[:60]}' into field. Choices are: {', '.join(sorted(fields))}")
    lookups = fields[name].lookups
    lookup = key.removeprefix(name).removeprefix("__") or ("exact" if "exact" in lookups else "date")
    if lookup not in lookups:
        raise ToolError(f"Unsupported lookup '{lookup[:60]}' for {name}. Choices are: {', '.join(lookups)}")
    return name, lookup
