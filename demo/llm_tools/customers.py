"""Tools about customers."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from django.db.models import Count, Sum

from demo.formats import moment, money
from demo.models import Customer, Order
from llmcore.errors import ToolError
from llmcore.messages import JSON
from llmcore.redaction import storable
from llmcore.tools.registry import tool


@tool(group="customers", permission="demo.view_customer")
def get_customer(email: Annotated[str, "The customer's e-mail address.", {"maxLength": 254}]) -> JSON:
    """A customer by e-mail address: name, place, language, how many orders for how much, and the last five orders."""
    customer = Customer.objects.filter(email__iexact=storable(email)).first()
    if customer is None:
        raise ToolError(f"There is no customer with the address {email!r}. Search orders by customer__name__icontains.")
    counted = customer.orders.exclude(status=Order.Status.CANCELLED).aggregate(count=Count("pk"), total=Sum("total"))
    last = customer.orders.order_by("-created")[:5]
    return {
        "name": customer.name,
        "email": customer.email,
        "city": customer.city,
        "country": customer.country,
        "language": customer.language,
        "customer_since": customer.since.isoformat(),
        "orders": counted["count"],
        "spent": money(counted["total"] or Decimal(0)),
        "last_orders": [
            {"number": order.number, "created": moment(order.created), "total": money(order.total)} for order in last
        ],
    }
