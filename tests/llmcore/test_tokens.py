"""Token estimates against counts that the o200k and cl100k encodings really give."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmcore.context.tokens import estimate_message, estimate_roughly, estimate_tokens, estimate_tools
from llmcore.messages import Message, Part, ToolCall, ToolSpec

# Counted once with both encodings: (text, o200k, cl100k).
COUNTED = {
    "English": (
        "You are the support triage assistant of a web shop for coffee gear. You help staff, never customers directly. "
        "Establish the facts with tools before you give an opinion, name the order and payment ids you relied on, and "
        "say plainly when something could not be verified.",
        54,
        54,
    ),
    "German": (
        "Die Kundin schreibt, dass ihre Bestellung zweimal abgebucht wurde und sie das Geld zurückhaben möchte. Prüfe "
        "die Bestellung und beide Zahlungen, und schreibe einen Entwurf für die Antwort.",
        40,
        49,
    ),
    "French": (
        "La cliente écrit que sa commande a été débitée deux fois et qu'elle souhaite être remboursée. Vérifie la "
        "commande et les deux paiements, puis rédige une réponse.",
        37,
        42,
    ),
    "Russian": (
        "Клиентка пишет, что заказ был оплачен дважды, и хочет вернуть деньги. Проверьте заказ и оба платежа и "
        "подготовьте ответ.",
        33,
        54,
    ),
    "Chinese": ("客户说她的订单被重复扣款,希望退款。请检查订单和两笔付款,并起草回复。", 26, 40),
    "Japanese": (
        "お客様は注文が二重に請求されたので返金してほしいと言っています。注文と両方の支払いを確認し、返信の下書きを作成してください。",
        41,
        65,
    ),
    "Korean": (
        "고객은 주문이 두 번 결제되었다며 환불을 원합니다. 주문과 두 결제를 확인하고 답장 초안을 작성하세요.",
        32,
        48,
    ),
    "Python": (
        "def search_orders(*, customer_email: str | None = None, limit: int = 10) -> list[dict[str, object]]:\n"
        '    orders = Order.objects.select_related("customer")\n'
        "    if customer_email:\n"
        "        orders = orders.filter(customer__email=customer_email)\n"
        "    return [order.as_dict() for order in orders[:limit]]\n",
        70,
        70,
    ),
    "JSON": (
        '{"orders":[{"number":"DJ-48213","customer_email":"amelia.braun@example.com","status":"captured",'
        '"total":"64.90","payments":["pay_7Qm1nB","pay_7Qm2xV"]},{"number":"DJ-48214","customer_email":null,'
        '"status":"refunded","total":"12.00","payments":[]}]}',
        81,
        80,
    ),
    "numbers": ("48213 1284 0.0074 28248 2052 16896 11352 1220 832 13284 3.1415926535", 37, 37),
    "ids": ("3f2504e0-4f89-11d3-9a0c-0305e82c3301 9b2d1c7e-6a55-4c0e-8a57-2f6f3f1f0a11", 61, 61),
}


@pytest.mark.parametrize("kind", COUNTED)
def test_an_estimate_stands_near_what_the_encodings_count(kind: str) -> None:  # C1
    text, o200k, cl100k = COUNTED[kind]
    assert 0.85 * min(o200k, cl100k) <= estimate_tokens(text) <= 1.25 * max(o200k, cl100k)


def test_the_empty_text_alone_has_no_tokens() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens(" ") == 1
    assert estimate_tokens("é") == 1


@given(st.text(max_size=400))
def test_any_text_can_be_estimated(text: str) -> None:
    estimate = estimate_tokens(text)
    assert (estimate > 0) == bool(text)
    assert estimate <= 4 * len(text)


@given(st.text(max_size=200), st.text(max_size=200))
def test_two_texts_together_take_about_as_many_tokens_as_apart(one: str, other: str) -> None:
    apart = estimate_tokens(one) + estimate_tokens(other)
    assert estimate_tokens(one + other) <= apart + 3


def test_lone_surrogates_are_estimated_like_other_characters() -> None:
    assert estimate_tokens("\ud800 broken \udfff") >= 3


@pytest.mark.parametrize("kind", COUNTED)
def test_a_long_text_is_estimated_in_proportion(kind: str) -> None:
    text = COUNTED[kind][0] + "\n"
    short = text * (100_000 // len(text))
    long = short * 10
    assert estimate_tokens(long) == pytest.approx(10 * estimate_tokens(short), rel=0.03)


def test_the_arguments_of_calls_count() -> None:  # C1
    bare = Message(role="assistant", parts=(Part(text="Looking."),))
    call = ToolCall(id="1", name="search_orders", arguments={"customer_email": "amelia.braun@example.com"})
    calling = Message(role="assistant", parts=bare.parts, tool_calls=(call,))
    broken = ToolCall(id="2", name="search_orders", arguments=None, arguments_raw='{"customer_email": "amelia')
    assert estimate_message(calling) >= estimate_message(bare) + 12
    assert estimate_message(Message(role="assistant", tool_calls=(broken,))) > estimate_message(Message(role="user"))


def test_images_and_providers_blocks_count() -> None:
    image = Message(role="user", parts=(Part(kind="image", media_type="image/png", data="AAAA"),))
    block = Message(role="assistant", parts=(Part(kind="provider", extra={"encrypted": "c2VjcmV0" * 50}),))
    assert estimate_message(image) > 500
    assert estimate_message(block) > 100


def test_tool_definitions_count_with_their_schemas() -> None:  # C1
    small = ToolSpec(name="now", description="The time.", parameters={"type": "object", "properties": {}})
    large = ToolSpec(
        name="search",
        description="Search the orders of a customer.",
        parameters={"type": "object", "properties": {f"field_{n}": {"type": "string"} for n in range(20)}},
    )
    assert 10 < estimate_tools([small]) < estimate_tools([large])
    assert estimate_tools([small, large]) == estimate_tools([small]) + estimate_tools([large])
    assert estimate_tools([]) == 0


@pytest.mark.parametrize("kind", COUNTED)
def test_a_rough_estimate_is_near_the_full_one(kind: str) -> None:
    text = (COUNTED[kind][0] + "\n") * 100

    assert estimate_roughly(text) == pytest.approx(estimate_tokens(text), rel=0.2)
