"""The refund tool of the demo: it moves money only as it was approved."""

from __future__ import annotations

from typing import Any

import pytest

from demo.llm_tools.refunds import describe_refund
from demo.models import Payment, Refund
from demo.services import load_demo
from llmcore.errors import ToolError
from llmcore.tools.base import ToolContext
from llmcore.tools.registry import all_tools

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def shop() -> None:
    load_demo(demo_model_url="http://127.0.0.1:8766/v1")


def refund(amount: Any, *, approved: Any = None, payment: str = "pay_7Qm2xV") -> Any:
    arguments = {"payment": payment, "amount": amount, "reason": "3.2"}
    context = ToolContext(approved=approved or describe_refund(arguments, ToolContext()))
    return all_tools()["refund_payment"].run(**arguments, context=context)


def test_a_refund_is_booked_as_it_was_approved() -> None:
    assert refund("64.90")["refunded"] == "64.90"

    assert Refund.objects.get(payment__reference="pay_7Qm2xV").reason == "3.2"
    with pytest.raises(ToolError, match="can still be refunded"):
        refund("0.01")


@pytest.mark.parametrize("amount", ["0", "-5", "64.91", "1.005", "NaN", "Infinity"])
def test_no_refund_is_more_than_what_is_left(amount: str) -> None:
    with pytest.raises(ToolError):
        refund(amount)
    assert not Refund.objects.filter(payment__reference="pay_7Qm2xV").exists()


def test_an_approval_of_another_refund_does_not_hold() -> None:
    other = describe_refund({"payment": "pay_7Qm2xV", "amount": "10"}, ToolContext())
    with pytest.raises(ToolError, match="has changed since"):
        refund("64.90", approved=other)


def test_a_payment_that_was_changed_since_needs_another_look() -> None:
    approved = describe_refund({"payment": "pay_7Qm2xV", "amount": "10"}, ToolContext())
    Payment.objects.filter(reference="pay_7Qm2xV").update(amount="99")
    with pytest.raises(ToolError, match="has changed since"):
        refund("10", approved=approved)
