"""The shop's tools: what they tell, to whom, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from jsonschema import Draft202012Validator

from demo.models import Order, OrderNote
from llmcore.errors import ToolError
from llmcore.messages import JSON
from llmcore.tools.base import Effect
from llmcore.tools.registry import all_tools

Use = Callable[..., JSON]
AMELIA = "amelia.braun@example.com"
SHOP_TOOLS = (
    "add_order_note",
    "get_customer",
    "get_order",
    "list_payments",
    "list_policies",
    "list_refunds",
    "read_policy",
    "sales_summary",
    "search_orders",
    "stock_levels",
)


def user_who_may(*codenames: str) -> User:
    user = User.objects.create_user("kim", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return user


def test_tools_are_found_with_descriptions_groups_and_permissions() -> None:
    tools = {name: all_tools()[name] for name in SHOP_TOOLS}

    assert {tool.group for tool in tools.values()} == {"orders", "customers", "policies", "reports"}
    assert [name for name, tool in tools.items() if tool.effect is not Effect.READ_ONLY] == ["add_order_note"]
    assert {name for name, tool in tools.items() if not tool.permission} == {"list_policies", "read_policy"}
    for tool in tools.values():
        assert len(tool.description) > 40
        for parameter in tool.parameters["properties"].values():
            assert parameter.get("description") or parameter.get("enum") or parameter.get("anyOf"), tool.name


@pytest.mark.django_db
def test_permissions_of_the_tools_exist() -> None:
    known = {f"{p.content_type.app_label}.{p.codename}" for p in Permission.objects.select_related("content_type")}

    assert {all_tools()[name].permission for name in SHOP_TOOLS} - {""} <= known


def test_order_comes_with_lines_payments_and_notes(use: Use) -> None:
    use("add_order_note", order_number="dj-48213", text="Called.")

    order = use("get_order", number=" dj-48213 ")

    assert order["total"] == "64.90"
    assert [line["quantity"] for line in order["lines"]] == [2, 1]
    assert [payment["reference"] for payment in order["payments"]] == ["pay_7Qm1nB", "pay_7Qm2xV"]
    assert [note["text"] for note in order["notes"]] == ["Called."]
    assert order["customer"] == {"name": "Amelia Braun", "email": AMELIA}


def test_payments_tell_the_time_between_captures(use: Use) -> None:
    found = use("list_payments", order_number="DJ-48213")

    assert found["captured_total"] == "129.80"
    assert [payment["seconds_after_previous"] for payment in found["payments"]] == [None, 41]
    assert [payment["refunded"] for payment in found["payments"]] == ["0.00", "0.00"]


def test_refunds_of_all_orders_and_of_one(use: Use) -> None:
    week = use("list_refunds", since="2026-11-23")

    assert (week["count"], week["total"]) == (len(week["refunds"]), "176.15")
    one = use("list_refunds", order_number=week["refunds"][0]["order"])
    assert one["refunds"] == week["refunds"][:1]
    assert use("list_refunds", order_number="DJ-48213") == {"count": 0, "total": "0.00", "refunds": []}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"customer__email": AMELIA}, ["DJ-48213", "DJ-48037"]),
        ({"customer__email": AMELIA, "created__gte": "2026-11-01"}, ["DJ-48213"]),
        ({"customer__name__icontains": "amelia", "total": 64.9}, ["DJ-48213"]),
        ({"payments__reference": "pay_7Qm2xV"}, ["DJ-48213"]),
        ({"number__in": ["DJ-48001", "DJ-48000"]}, ["DJ-48001", "DJ-48000"]),
        ({"created": "2026-11-21", "total__lte": "64.90", "customer__email": AMELIA}, ["DJ-48213"]),
        ({"created__gte": "2026-11-21T09:13:00Z", "created__lt": "2026-11-21T10:14:00+01:00"}, ["DJ-48213"]),
        ({"number": "DJ-1"}, []),
    ],
)
def test_search_finds_by_django_lookups(use: Use, filters: dict[str, Any], expected: list[str]) -> None:
    found = use("search_orders", filters=filters)

    assert [order["number"] for order in found["orders"]] == expected
    assert found["count"] == len(expected)


def test_two_filters_on_payments_mean_one_payment(use: Use) -> None:
    filters = {"payments__reference": "pay_7Qm2xV", "payments__state": "voided"}

    assert use("search_orders", filters=filters)["count"] == 0


def test_unknown_field_is_answered_with_the_known_ones(use: Use) -> None:
    with pytest.raises(ToolError) as caught:
        use("search_orders", filters={"payment_status": "captured"})

    assert str(caught.value).startswith("Cannot resolve keyword 'payment_status' into field. Choices are: carrier,")
    assert "payments__state" in str(caught.value)


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"customer__orders__payments__amount": 1}, "Cannot resolve keyword"),
        ({"notes__author__password__startswith": "p"}, "Cannot resolve keyword"),
        ({"customer__email__regex": "(a+)+$"}, "Unsupported lookup 'regex'"),
        ({"number__in__exact": ["x"]}, "Unsupported lookup"),
        ({"created__year": 2026}, "Unsupported lookup"),
        ({"total": "NaN"}, "an amount in euros"),
        ({"total": True}, "an amount in euros"),
        ({"total__gt": "1e999999999"}, "an amount in euros"),
        ({"total__gt": [1]}, "an amount in euros"),
        ({"created__gte": "yesterday"}, "a day or time"),
        ({"created__gte": "2026-13-45"}, "a day or time"),
        ({"created__gte": "0001-01-01"}, "a day or time"),
        ({"created__gte": 20261121}, "a day or time"),
        ({"status": "lost"}, "is one of placed, paid"),
        ({"status__in": "paid"}, "a list of at most 50"),
        ({"number__in": ["x"] * 51}, "a list of at most 50"),
        ({"number": "\x00"}, "a character that is none"),
        ({"number": "\ud800"}, "a character that is none"),
        ({"number": "x" * 201}, "at most 200 characters"),
        ({"number": {"$ne": 1}}, "at most 200 characters"),
        ({"number": 48213}, "takes a text"),
        ({f"total__gt{'_' * n}": 1 for n in range(11)}, "At most 10 filters"),
        ({"x" * 5000: 1}, "Cannot resolve keyword"),
    ],
)
def test_hostile_or_wrong_filters_are_refused_in_words(use: Use, filters: dict[str, Any], message: str) -> None:
    with pytest.raises(ToolError, match=message) as caught:
        use("search_orders", filters=filters)

    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("wild", ["%", "_", "' OR 1=1 --", '"; DROP TABLE demo_order; --'])
def test_search_takes_text_as_text(use: Use, wild: str) -> None:
    assert use("search_orders", filters={"number__icontains": wild})["count"] == 0
    assert Order.objects.count() == 250


def test_answers_are_bounded(use: Use) -> None:
    everything = use("search_orders", filters={}, limit=50)

    assert everything["count"] == 250 and len(everything["orders"]) == 50
    for limited in ("search_orders", "list_refunds", "stock_levels"):
        assert all_tools()[limited].parameters["properties"]["limit"]["maximum"] == 50
    assert len(json.dumps(everything)) < 20_000
    assert len(use("sales_summary", start="2026-10-01", end="2026-11-29", group_by="product")["groups"]) <= 40


def test_search_makes_as_many_queries_for_one_order_as_for_fifty(use: Use) -> None:
    def queries(limit: int) -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            use("search_orders", filters={}, limit=limit)
        return len(captured)

    assert queries(1) == queries(50) <= 4


def test_who_a_customer_is_takes_a_permission_of_its_own(use: Use) -> None:
    clerk = user_who_may("view_order", "view_payment")

    assert "customer" not in use("get_order", clerk, number="DJ-48213")
    assert "customer" not in use("get_order", None, number="DJ-48213")
    assert "customer" not in use("search_orders", clerk, filters={"number": "DJ-48213"})["orders"][0]
    with pytest.raises(ToolError) as caught:
        use("search_orders", clerk, filters={"customer__email": AMELIA})
    assert "customer__email" not in str(caught.value).partition("Choices are")[2]


def test_note_is_kept_once_with_its_author(use: Use) -> None:
    clerk = user_who_may("add_ordernote")

    assert use("add_order_note", clerk, order_number="DJ-48213", text="Refund pay_7Qm2xV.")["added"]
    assert not use("add_order_note", clerk, order_number="DJ-48213", text=" Refund pay_7Qm2xV. ")["added"]
    note = OrderNote.objects.get()
    assert (note.text, note.author, note.order.number) == ("Refund pay_7Qm2xV.", clerk, "DJ-48213")


def test_note_with_characters_that_are_none_is_kept_without_them(use: Use) -> None:
    use("add_order_note", order_number="DJ-48213", text="Refund\x00 it\ud800.")

    assert OrderNote.objects.get().text == "Refund\ufffd it\ufffd."


def test_customer_is_found_by_address(use: Use) -> None:
    customer = use("get_customer", email=AMELIA.upper())

    assert (customer["name"], customer["city"], customer["orders"]) == ("Amelia Braun", "Leipzig", 2)
    assert customer["spent"] == "110.50"


def test_policies_are_read_whole_or_by_section(use: Use) -> None:
    names = [policy["name"] for policy in use("list_policies")]

    assert names == ["gift-cards", "privacy", "refunds", "shipping"]
    section = use("read_policy", name="refunds", section="3.2")
    assert section.startswith("### 3.2 Duplicate charges") and "### 3.3" not in section
    assert "### 3.4" in use("read_policy", name="refunds", section="3")
    assert "## 4" not in use("read_policy", name="refunds", section="3")
    assert use("read_policy", name="refunds").startswith("# Refunds and returns")


def test_sales_add_up_in_every_grouping(use: Use) -> None:
    week = {"start": "2026-11-23", "end": "2026-11-29"}
    by_day = use("sales_summary", **week)
    by_country = use("sales_summary", **week, group_by="country")
    by_category = use("sales_summary", **week, group_by="category")

    def cents(found: JSON) -> int:
        return sum(round(float(group["sales"]) * 100) for group in found["groups"])

    assert (by_day["orders"], by_day["sales"]) == (27, "2026.65")
    assert cents(by_day) == cents(by_country) == 202_665
    assert cents(by_category) == 202_665 - round(float(by_category["shipping"]) * 100)
    assert [group["group"] for group in by_day["groups"]] == [f"2026-11-{day}" for day in range(23, 30)]


def test_span_without_sales_has_no_average(use: Use) -> None:
    empty = use("sales_summary", start="2020-01-01", end="2020-01-02")

    assert (empty["orders"], empty["sales"], empty["average_order"], empty["groups"]) == (0, "0.00", None, [])


def test_stock_lists_what_has_to_be_reordered_first(use: Use) -> None:
    low = use("stock_levels", below_reorder_level=True)

    assert low["count"] == 6 and low["articles"][0]["sku"] == "COF-ADV-24"
    assert {article["sku"][:3] for article in use("stock_levels", category="tea")["articles"]} == {"TEA"}


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("get_order", {"number": "DJ-1"}, "There is no order 'DJ-1'. Order numbers look like"),
        ("get_order", {"number": "\x00"}, "There is no order"),
        ("list_payments", {"order_number": "%"}, "There is no order"),
        ("list_refunds", {"since": "2026-02-30"}, "since"),
        ("add_order_note", {"order_number": "DJ-48213", "text": " "}, "needs a text"),
        ("get_customer", {"email": "nobody@example.com"}, "There is no customer"),
        ("get_customer", {"email": "\x00"}, "There is no customer"),
        ("read_policy", {"name": "../prompts/support-triage"}, "Choices are: gift-cards"),
        ("read_policy", {"name": "refunds", "section": "9"}, "It has 1, 2, 3, 3.1"),
        ("sales_summary", {"start": "2026-11-29", "end": "2026-11-23"}, "up to 92 days later"),
        ("sales_summary", {"start": "2020-01-01", "end": "2026-01-01"}, "up to 92 days later"),
        ("stock_levels", {"sku": "X"}, "There is no article"),
        ("stock_levels", {"sku": "\x00"}, "There is no article"),
        ("stock_levels", {"sku": "\ud800"}, "There is no article"),
        ("get_order", {"number": "\ud800"}, "There is no order"),
        ("get_customer", {"email": "\ud800"}, "There is no customer"),
    ],
)
def test_what_does_not_exist_is_said_in_words(use: Use, name: str, arguments: dict[str, Any], message: str) -> None:
    assert Draft202012Validator(all_tools()[name].parameters).is_valid(arguments)
    with pytest.raises(ToolError, match=message):
        use(name, **arguments)
