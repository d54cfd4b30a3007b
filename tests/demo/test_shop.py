"""The shop's rows."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db.models import Count, F, Q, Sum

from demo.models import Customer, Order, OrderLine, Payment, Product, Refund
from demo.shop import DOUBLE_CHARGE, LAST_DAY, create_shop
from llmcore.messages import digest_of

pytestmark = pytest.mark.django_db

# In an order in which all can be deleted.
MODELS: tuple[Any, ...] = (Refund, Payment, OrderLine, Order, Customer, Product)


def content() -> dict[str, str]:
    """A digest of each table, primary keys left out."""
    rows = {
        model.__name__: sorted(
            repr([value for field, value in row.items() if field != "id" and not field.endswith("_id")])
            for row in model.objects.values()
        )
        for model in MODELS
    }
    return {name: digest_of(values) for name, values in rows.items()}


def test_shop_is_the_same_on_every_installation() -> None:
    create_shop()
    first = content()
    for model in MODELS:
        model.objects.all().delete()
    create_shop()

    assert content() == first
    # Scenarios quote these rows, so a change of any of them has to be meant.
    assert digest_of(first)[:12] == "c1107ca2da29"


def test_shop_has_a_few_hundred_rows() -> None:
    create_shop()

    assert (Product.objects.count(), Customer.objects.count(), Order.objects.count()) == (32, 64, 250)
    assert 10 < Refund.objects.count() < 60


def test_one_order_alone_was_charged_twice() -> None:
    create_shop()
    order = Order.objects.get(number=DOUBLE_CHARGE)
    first, second = order.payments.order_by("captured_at")
    captured = Count("payments", filter=Q(payments__state=Payment.State.CAPTURED))

    assert order.customer.name == "Amelia Braun"
    assert first.amount == second.amount == order.total == Decimal("64.90")
    assert second.captured_at - first.captured_at == timedelta(seconds=41)
    assert first.captured_at.date().isoformat() == "2026-11-21"
    assert [found.number for found in Order.objects.annotate(n=captured).filter(n__gt=1)] == [DOUBLE_CHARGE]


def test_totals_add_up_and_nothing_lies_after_the_last_day() -> None:
    create_shop()
    for order in Order.objects.annotate(goods=Sum(F("lines__quantity") * F("lines__unit_price"))):
        assert round(order.goods, 2) + order.shipping == order.total, order.number

    assert not Order.objects.filter(created__date__gt=LAST_DAY).exists()
    assert not Payment.objects.filter(captured_at__date__gt=LAST_DAY).exists()
    assert not Refund.objects.filter(created__date__gt=LAST_DAY).exists()
    assert not Refund.objects.filter(amount__gt=F("payment__amount")).exists()
    numbers = list(Order.objects.order_by("created").values_list("number", flat=True))
    assert numbers == sorted(numbers)
