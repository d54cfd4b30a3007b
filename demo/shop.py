"""The demo shop's rows: the same ones on every installation, up to the evening of 29 November 2026."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import TypeVar

from django.db import transaction

from demo.catalog import CARRIERS, FIRST_NAMES, LAST_NAMES, LINE_REFUND_REASONS, PLACES, PRODUCTS, WHOLE_REFUND_REASONS
from demo.models import Customer, Order, OrderLine, Payment, Product, Refund

FIRST_DAY = date(2026, 10, 1)
LAST_DAY = date(2026, 11, 29)
DAYS = (LAST_DAY - FIRST_DAY).days + 1
CUSTOMERS = 64
ORDERS = 250
FIRST_NUMBER = 48_000
FREE_SHIPPING_FROM = Decimal("75.00")
SHIPPING = Decimal("4.95")
LETTERS = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

# The order that was charged twice.
DOUBLE_CHARGE = "DJ-48213"
DOUBLE_CHARGE_AT = datetime(2026, 11, 21, 9, 13, 58, tzinfo=UTC)
DOUBLE_CHARGE_LINES = (("COF-BJ-1000", 2), ("BRW-PAP-100", 1))
DOUBLE_CAPTURES = (
    ("pay_7Qm1nB", datetime(2026, 11, 21, 9, 14, 31, tzinfo=UTC)),
    ("pay_7Qm2xV", datetime(2026, 11, 21, 9, 15, 12, tzinfo=UTC)),
)

Item = TypeVar("Item")


class Dice:
    """Random choices that are the same in every version of Python: only `Random.random()` is promised to be."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def below(self, number: int) -> int:
        return int(self._random.random() * number)

    def pick(self, items: Sequence[Item]) -> Item:
        return items[self.below(len(items))]

    def chance(self, percent: int) -> bool:
        return self.below(100) < percent

    def reference(self, prefix: str) -> str:
        return prefix + "".join(self.pick(LETTERS) for _ in range(6))


@dataclass
class Rows:
    """What is to be written, in the order in which it depends on each other."""

    orders: list[Order] = field(default_factory=list)
    lines: list[OrderLine] = field(default_factory=list)
    payments: list[Payment] = field(default_factory=list)
    refunds: list[Refund] = field(default_factory=list)

    def write(self) -> None:
        Order.objects.bulk_create(self.orders)
        OrderLine.objects.bulk_create(self.lines)
        Payment.objects.bulk_create(self.payments)
        Refund.objects.bulk_create(self.refunds)


@transaction.atomic
def create_shop() -> None:
    """Write all rows; to be called on an empty shop."""
    dice = Dice(48_213)
    products = Product.objects.bulk_create(
        Product(sku=sku, name=name, category=category, price=Decimal(price), stock=stock, reorder_level=reorder)
        for sku, name, category, price, stock, reorder in PRODUCTS
    )
    amelia, *others = create_customers(dice)
    by_sku = {product.sku: product for product in products}
    rows = Rows()
    for index in range(ORDERS):
        number = f"DJ-{FIRST_NUMBER + index}"
        if number == DOUBLE_CHARGE:
            lines = [(by_sku[sku], quantity) for sku, quantity in DOUBLE_CHARGE_LINES]
            add_double_charge(rows, add_order(rows, dice, number, amelia, DOUBLE_CHARGE_AT, lines))
            continue
        # Amelia Braun bought once before.
        customer = amelia if index == 37 else dice.pick(others)
        order = add_order(rows, dice, number, customer, ordered_at(dice, index), choose_lines(dice, products))
        add_payment(rows, dice, order)
    rows.write()


def create_customers(dice: Dice) -> list[Customer]:
    customers = [
        Customer(
            name="Amelia Braun",
            email="amelia.braun@example.com",
            city="Leipzig",
            country="DE",
            language="de",
            since=date(2024, 3, 9),
        )
    ]
    names: set[str] = set()
    while len(customers) < CUSTOMERS:
        name = f"{dice.pick(FIRST_NAMES)} {dice.pick(LAST_NAMES)}"
        if name in names:
            continue
        names.add(name)
        city, country, language = dice.pick(PLACES)
        customers.append(
            Customer(
                name=name,
                email=f"{name.lower().replace(' ', '.')}@example.com",
                city=city,
                country=country,
                language=language,
                since=FIRST_DAY - timedelta(days=dice.below(1200)),
            )
        )
    return Customer.objects.bulk_create(customers)


def ordered_at(dice: Dice, index: int) -> datetime:
    """Orders are spread over the days evenly, each day's in the order of their numbers from 7 to 21 h."""
    day = index * DAYS // ORDERS
    first = -(-day * ORDERS // DAYS)
    following = -(-(day + 1) * ORDERS // DAYS)
    slot = 14 * 3600 // (following - first)
    seconds = 7 * 3600 + (index - first) * slot + dice.below(slot)
    return midnight(FIRST_DAY) + timedelta(days=day, seconds=seconds)


def choose_lines(dice: Dice, products: Sequence[Product]) -> list[tuple[Product, int]]:
    chosen = dict.fromkeys(dice.pick(products) for _ in range(1 + dice.below(4)))
    return [(product, 2 if dice.chance(20) else 1) for product in chosen]


def add_order(
    rows: Rows, dice: Dice, number: str, customer: Customer, created: datetime, lines: Sequence[tuple[Product, int]]
) -> Order:
    goods = sum((product.price * quantity for product, quantity in lines), Decimal(0))
    shipping = Decimal(0) if goods >= FREE_SHIPPING_FROM else SHIPPING
    status = status_of(dice, number, created)
    sent = status in (Order.Status.SHIPPED, Order.Status.DELIVERED)
    order = Order(
        number=number,
        customer=customer,
        status=status,
        created=created,
        shipping=shipping,
        total=goods + shipping,
        carrier=dice.pick(CARRIERS) if sent else "",
        tracking=f"00{dice.below(10**9):09}{dice.below(10**9):09}" if sent else "",
    )
    rows.orders.append(order)
    rows.lines += [
        OrderLine(order=order, product=product, quantity=quantity, unit_price=product.price)
        for product, quantity in lines
    ]
    return order


def status_of(dice: Dice, number: str, created: datetime) -> Order.Status:
    cancelled = dice.chance(4)
    age = (LAST_DAY - created.date()).days
    if cancelled and number != DOUBLE_CHARGE:
        return Order.Status.CANCELLED
    if age >= 4:
        return Order.Status.DELIVERED
    return Order.Status.SHIPPED if age >= 2 else Order.Status.PAID


def add_payment(rows: Rows, dice: Dice, order: Order) -> None:
    method = Payment.Method.CARD if dice.chance(70) else dice.pick((Payment.Method.PAYPAL, Payment.Method.INVOICE))
    delay = timedelta(seconds=20 + dice.below(70))
    if method == Payment.Method.INVOICE:
        delay = timedelta(days=3 + dice.below(8), seconds=dice.below(36_000))
    captured_at = order.created + delay
    state = Payment.State.CAPTURED if captured_at.date() <= LAST_DAY else Payment.State.AUTHORIZED
    if order.status == Order.Status.CANCELLED:
        state = Payment.State.VOIDED
    payment = Payment(
        reference=dice.reference("pay_"),
        order=order,
        method=method,
        state=state,
        amount=order.total,
        captured_at=captured_at if state == Payment.State.CAPTURED else None,
    )
    rows.payments.append(payment)
    if order.status == Order.Status.DELIVERED and state == Payment.State.CAPTURED and dice.chance(10):
        add_refund(rows, dice, payment)


def add_refund(rows: Rows, dice: Dice, payment: Payment) -> None:
    day = (payment.captured_at or payment.order.created).date() + timedelta(days=4 + dice.below(9))
    reference, whole, seconds = dice.reference("ref_"), dice.chance(40), dice.below(9 * 3600)
    reason = dice.pick(WHOLE_REFUND_REASONS if whole else LINE_REFUND_REASONS)
    if day > LAST_DAY:
        return
    first_line = next(line for line in rows.lines if line.order is payment.order)
    rows.refunds.append(
        Refund(
            reference=reference,
            payment=payment,
            amount=payment.amount if whole else first_line.unit_price,
            reason=reason,
            created=midnight(day) + timedelta(hours=8, seconds=seconds),
        )
    )


def midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def add_double_charge(rows: Rows, order: Order) -> None:
    rows.payments += [
        Payment(
            reference=reference,
            order=order,
            method=Payment.Method.CARD,
            state=Payment.State.CAPTURED,
            amount=order.total,
            captured_at=captured_at,
        )
        for reference, captured_at in DOUBLE_CAPTURES
    ]
