"""Tools about sales and stock."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

from django.db.models import Count, F, Q, QuerySet, Sum
from django.db.models.functions import TruncDate

from demo.formats import money
from demo.models import Order, OrderLine, Product
from llmcore.errors import ToolError
from llmcore.messages import JSON
from llmcore.redaction import storable
from llmcore.tools.registry import tool

MOST_GROUPS = 40
LONGEST_PERIOD = timedelta(days=92)


@tool(group="reports", permission="demo.view_order")
def sales_summary(
    start: Annotated[date, "The first day."],
    end: Annotated[date, "The last day, included."],
    group_by: Literal["day", "category", "product", "country"] = "day",
) -> JSON:
    """Orders and sales of a span of at most 92 days, cancelled orders left out, in groups. Sales of days and countries
    are the orders' totals with shipping, those of categories and products the lines without. Groups come in the order
    of their sales, days in their own; the 40 first ones are listed."""
    if end < start or end - start > LONGEST_PERIOD:
        raise ToolError("“end” must be the same day as “start” or up to 92 days later.")
    orders = Order.objects.exclude(status=Order.Status.CANCELLED).filter(
        created__date__gte=start, created__date__lte=end
    )
    whole = orders.aggregate(count=Count("pk"), sales=Sum("total"), shipping=Sum("shipping"))
    sales = whole["sales"] or Decimal(0)
    return {
        "start": start.isoformat(),
        "end": end.isoformat(),
        "orders": whole["count"],
        "sales": money(sales),
        "shipping": money(whole["shipping"] or Decimal(0)),
        "average_order": money(sales / whole["count"]) if whole["count"] else None,
        "groups": groups_of(orders, group_by),
    }


@tool(group="reports", permission="demo.view_product")
def stock_levels(
    sku: Annotated[str | None, "One article by its SKU.", {"maxLength": 20}] = None,
    category: Literal["coffee", "tea", "brewing", "cups"] | None = None,
    below_reorder_level: Annotated[bool, "Only articles that have to be reordered."] = False,
    limit: Annotated[int, "How many to list at most.", {"minimum": 1, "maximum": 50}] = 20,
) -> JSON:
    """How many pieces of each article are in stock, and from which number on it has to be reordered. The articles that
    are the furthest below come first."""
    found = Product.objects.annotate(spare=F("stock") - F("reorder_level"))
    if sku is not None:
        found = found.filter(sku=storable(sku))
        if not found.exists():
            raise ToolError(f"There is no article with the SKU {sku!r}. SKUs look like COF-BJ-1000.")
    if category is not None:
        found = found.filter(category=category)
    if below_reorder_level:
        found = found.filter(spare__lt=0)
    return {
        "count": found.count(),
        "articles": [
            {
                "sku": product.sku,
                "name": product.name,
                "price": money(product.price),
                "in_stock": product.stock,
                "reorder_at": product.reorder_level,
            }
            for product in found.order_by("spare", "sku")[:limit]
        ],
    }


def groups_of(orders: QuerySet[Order], group_by: str) -> list[JSON]:
    sold = Sum(F("quantity") * F("unit_price"))
    rows: QuerySet[Any, Any]
    match group_by:
        case "day":
            by_day = orders.annotate(group=TruncDate("created")).values("group").order_by("group")
            rows = by_day.annotate(orders=Count("pk"), sales=Sum("total"))
        case "country":
            by_country = orders.annotate(group=F("customer__country")).values("group")
            rows = by_country.annotate(orders=Count("pk"), sales=Sum("total")).order_by("-sales", "group")
        case _:
            field = "product__category" if group_by == "category" else "product__name"
            lines = OrderLine.objects.filter(Q(order__in=orders)).annotate(group=F(field)).values("group")
            rows = lines.annotate(orders=Count("order", distinct=True), sales=sold, pieces=Sum("quantity"))
            rows = rows.order_by("-sales", "group")
    listed: list[Any] = list(rows[:MOST_GROUPS])
    return [
        {
            "group": row["group"].isoformat() if isinstance(row["group"], date) else row["group"],
            "orders": row["orders"],
            "sales": money(row["sales"]),
            **({"pieces": row["pieces"]} if "pieces" in row else {}),
        }
        for row in listed
    ]
