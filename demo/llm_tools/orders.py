"""Tools about orders, their payments and refunds."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Literal

from django.db.models import F, Sum

from demo.formats import moment, money
from demo.models import Order, OrderNote, Payment, Refund
from demo.order_search import find_orders
from llmcore.errors import ToolError
from llmcore.messages import JSON
from llmcore.redaction import storable
from llmcore.tools.base import Effect, ToolContext
from llmcore.tools.registry import tool

MOST_LINES = 50
MOST_NOTES = 20

OrderNumber = Annotated[str, "The order's number, for example DJ-48213.", {"maxLength": 20}]
Limit = Annotated[int, "How many to list at most.", {"minimum": 1, "maximum": 50}]
FilterValue = str | int | float | bool | list[str | int | float]


@tool(group="orders", permission="demo.view_order")
def search_orders(
    context: ToolContext,
    filters: dict[str, FilterValue],
    order_by: Literal["-created", "created", "-total", "total"] = "-created",
    limit: Limit = 10,
) -> JSON:
    """Search orders by filters in the form of Django field lookups, all of which must fit. Returns how many orders
    there are and the first ones with number, customer, status, time, total and payments.

    Args:
        filters: For example {"customer__email": "a@example.com", "created__gte": "2026-11-01", "total__lt": 50}.
            An unknown field gives an error that lists the known ones.
        order_by: A minus sign means the latest or largest first.
    """
    found = find_orders(filters, personal=sees_customers(context))
    listed = found.order_by(order_by, "pk").select_related("customer").prefetch_related("payments")[:limit]
    return {"count": found.count(), "orders": [brief_order(order, context) for order in listed]}


@tool(group="orders", permission="demo.view_order")
def get_order(context: ToolContext, number: OrderNumber) -> JSON:
    """One order with its lines, shipping, customer and the notes that colleagues left on it. Payments are listed by
    list_payments."""
    order = order_of(number)
    lines = order.lines.select_related("product")[:MOST_LINES]
    notes = order.notes.select_related("author").order_by("-pk")[:MOST_NOTES]
    return {
        **brief_order(order, context),
        "lines": [
            {
                "sku": line.product.sku,
                "name": line.product.name,
                "quantity": line.quantity,
                "unit_price": money(line.unit_price),
            }
            for line in lines
        ],
        "shipping": money(order.shipping),
        "carrier": order.carrier or None,
        "tracking": order.tracking or None,
        "notes": [{"written": moment(note.created), "by": str(note.author or ""), "text": note.text} for note in notes],
    }


@tool(group="orders", permission="demo.view_payment")
def list_payments(order_number: OrderNumber) -> JSON:
    """All payments of one order, the earliest capture first, with reference, method, state, amount and time. Says how
    many seconds lie between one capture and the next, and what was refunded of each."""
    payments = order_of(order_number).payments.annotate(refunded=Sum("refunds__amount"))
    listed: list[JSON] = []
    previous: datetime | None = None
    for payment in payments.order_by(F("captured_at").asc(nulls_last=True), "pk")[:MOST_LINES]:
        captured = payment.captured_at
        listed.append(
            {
                "reference": payment.reference,
                "method": payment.method,
                "state": payment.state,
                "amount": money(payment.amount),
                "captured_at": moment(captured) if captured else None,
                "seconds_after_previous": int((captured - previous).total_seconds()) if captured and previous else None,
                "refunded": money(payment.refunded or Decimal(0)),
            }
        )
        previous = captured or previous
    captured_sum = sum((p.amount for p in payments if p.state == Payment.State.CAPTURED), Decimal(0))
    return {"order": order_number, "currency": "EUR", "captured_total": money(captured_sum), "payments": listed}


@tool(group="orders", permission="demo.view_refund")
def list_refunds(
    order_number: Annotated[str | None, "Only refunds of this order.", {"maxLength": 20}] = None,
    since: Annotated[date | None, "Only refunds from this day on."] = None,
    limit: Limit = 20,
) -> JSON:
    """Refunds, the latest first: of one order, or of all orders. Returns their number, their sum and the first ones."""
    found = Refund.objects.all()
    if order_number is not None:
        found = found.filter(payment__order=order_of(order_number))
    if since is not None:
        found = found.filter(created__date__gte=since)
    total = found.aggregate(total=Sum("amount"))["total"] or Decimal(0)
    return {
        "count": found.count(),
        "total": money(total),
        "refunds": [
            {
                "reference": refund.reference,
                "payment": refund.payment.reference,
                "order": refund.payment.order.number,
                "amount": money(refund.amount),
                "reason": refund.reason,
                "refunded_at": moment(refund.created),
            }
            for refund in found.select_related("payment__order").order_by("-created", "pk")[:limit]
        ],
    }


@tool(group="orders", effect=Effect.IDEMPOTENT_WRITE, permission="demo.add_ordernote")
def add_order_note(
    context: ToolContext,
    order_number: OrderNumber,
    text: Annotated[str, "What colleagues should know, in plain text.", {"minLength": 1, "maxLength": 500}],
) -> JSON:
    """Leave a note on an order for colleagues. Customers don't see it. The same text is kept only once."""
    text = storable(text).strip()
    if not text:
        raise ToolError("A note needs a text.")
    _note, created = OrderNote.objects.get_or_create(
        order=order_of(order_number), text=text, defaults={"author": context.user}
    )
    return {"order": order_number, "added": created}


def sees_customers(context: ToolContext) -> bool:
    """Whether the acting user may know who a customer is; without a user, nobody may."""
    user = context.user
    return bool(user is not None and user.has_perm("demo.view_customer"))


def order_of(number: str) -> Order:
    found = Order.objects.select_related("customer").filter(number__iexact=storable(number).strip())
    order = found.first()
    if order is None:
        raise ToolError(f"There is no order {number!r}. Order numbers look like DJ-48213.")
    return order


def brief_order(order: Order, context: ToolContext) -> dict[str, JSON]:
    brief: dict[str, JSON] = {
        "number": order.number,
        "status": order.status,
        "created": moment(order.created),
        "total": money(order.total),
        "payments": [
            {"reference": payment.reference, "state": payment.state, "amount": money(payment.amount)}
            for payment in order.payments.all()[:MOST_LINES]
        ],
    }
    if sees_customers(context):
        brief["customer"] = {"name": order.customer.name, "email": order.customer.email}
    return brief
