"""The tool that moves money: each call needs a person's approval."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated

from django.db import transaction
from django.db.models import Sum
from django.utils import timezone

from demo.formats import money
from demo.models import Payment, Refund
from llmcore.errors import ToolError
from llmcore.messages import JSON
from llmcore.redaction import storable
from llmcore.tools.base import Action, ActionKind, Effect, ToolContext
from llmcore.tools.registry import tool


def describe_refund(arguments: Mapping[str, JSON], context: ToolContext) -> Action:
    """What the decider sees; it changes with the payment, and then what was approved no longer holds."""
    payment, amount = refundable(str(arguments["payment"]), Decimal(str(arguments["amount"])))
    order = payment.order
    return Action(
        kind=ActionKind.CALL,
        title=f"Refund {money(amount)} EUR of {money(left_of(payment))} EUR left of {payment.reference}, order {order}",
    )


@tool(
    group="refunds",
    effect=Effect.NON_IDEMPOTENT_WRITE,
    permission="demo.add_refund",
    requires_approval=True,
    describe_action=describe_refund,
)
def refund_payment(
    context: ToolContext,
    payment: Annotated[str, "The payment's reference, for example pay_7Qm2xV.", {"maxLength": 20}],
    amount: Annotated[Decimal, "How much to give back, in euros, for example 12.50."],
    reason: Annotated[str, "Why, with the number of the rule.", {"minLength": 1, "maxLength": 200}],
) -> JSON:
    """Give money back to a customer from a captured payment. A person has to approve each refund before it is made."""
    with transaction.atomic():
        # Locked, so that two refunds at the same time can't give back more than was paid.
        Payment.objects.select_for_update().filter(reference=payment).first()
        found, amount = refundable(payment, amount)
        if context.approved is None or context.approved != describe_refund(
            {"payment": payment, "amount": amount}, context
        ):
            raise ToolError("The payment has changed since this refund was approved. Look at it again.")
        refund = Refund.objects.create(
            reference=f"ref_{secrets.token_hex(4)}",
            payment=found,
            amount=amount,
            reason=storable(reason).strip(),
            created=timezone.now(),
        )
    return {"refunded": money(amount), "reference": refund.reference, "payment": payment}


def refundable(reference: str, amount: Decimal) -> tuple[Payment, Decimal]:
    """The payment and the amount in cents, if so much of it can be given back."""
    payment = Payment.objects.select_related("order").filter(reference=storable(reference).strip()).first()
    if payment is None:
        raise ToolError(f"There is no payment {reference!r}. list_payments shows those of an order.")
    if payment.state != Payment.State.CAPTURED:
        raise ToolError(f"The payment {reference} is {payment.state}: only a captured one can be refunded.")
    if not amount.is_finite() or amount != amount.quantize(Decimal("0.01")) or amount <= 0:
        raise ToolError("The amount must be above 0, in whole cents.")
    if amount > left_of(payment):
        raise ToolError(f"At most {money(left_of(payment))} EUR of {reference} can still be refunded.")
    return payment, amount.quantize(Decimal("0.01"))


def left_of(payment: Payment) -> Decimal:
    refunded: Decimal = payment.refunds.aggregate(sum=Sum("amount"))["sum"] or Decimal(0)
    return payment.amount - refunded
