"""The demo's runs, through the same preparation, wire and loop as a worker's."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from demo.management.commands.demo_model import SCENARIOS
from demo.models import Order, OrderNote, Refund
from demo.runs import DEMO_RUNS, DOUBLE_CHARGE
from demo.services import copy_workspace
from llmcore.errors import ErrorKind
from llmcore.prompts.assembly import DropReason
from llmcore.providers.scripted import load_scenarios
from llmcore.runs.outcome import EndReason
from llmcore.trace import StepKind
from playground.services.start_run import RunRequest
from tests.demo.conftest import DemoRun

Run = Callable[[RunRequest], DemoRun]
OF = {request.configuration: request for request in DEMO_RUNS if not request.dry_run}
AMOUNT = re.compile(r"€([\d,]+\.\d\d)")


def test_double_charge_is_found_out_in_four_rounds_with_one_corrected_mistake(run_demo: Run) -> None:
    run = run_demo(DOUBLE_CHARGE)

    assert run.end.outcome.reason is EndReason.COMPLETED
    assert run.end.state.rounds_used == 4
    assert run.calls == [
        ("get_order", False),
        ("read_policy", False),
        ("list_payments", False),
        ("search_orders", True),
        ("search_orders", False),
        ("list_refunds", False),
    ]
    failed, corrected = run.results("search_orders")
    assert "Cannot resolve keyword 'payment_status' into field. Choices are:" in failed
    assert '"count": 1' in corrected.replace('"count":1', '"count": 1')


def test_answer_to_the_double_charge_is_true_to_the_data(run_demo: Run) -> None:
    answer = run_demo(DOUBLE_CHARGE).end.outcome.answer
    order = Order.objects.get(number="DJ-48213")
    first, second = order.payments.order_by("captured_at")

    rows = re.findall(r"\| `(pay_\w+)` \| ([\d:]+) \| €([\d.]+) \| (\w+) \|", answer)
    assert rows == [
        (first.reference, f"{first.captured_at:%H:%M:%S}", str(first.amount), "Keep"),
        (second.reference, f"{second.captured_at:%H:%M:%S}", str(second.amount), "Refund"),
    ]
    assert f"{(second.captured_at - first.captured_at).seconds} seconds apart" in answer
    assert set(AMOUNT.findall(answer)) == {str(order.total)}
    assert Order.objects.filter(customer=order.customer, created__year=2026, created__month=11).count() == 1
    assert not OrderNote.objects.exists()


def test_double_charge_uses_the_cache_thinks_and_costs_something(run_demo: Run) -> None:
    responses = [step.data for step in run_demo(DOUBLE_CHARGE).steps(StepKind.RESPONSE)]
    cached = [response["usage"]["cache_read_input_tokens"] for response in responses]

    assert cached[0] == 0 and all(0 < a < b for a, b in pairwise(cached[1:]))
    assert all(response["usage"]["reasoning_output_tokens"] > 0 for response in responses)
    assert all(response["cost"] is not None for response in responses)


def test_skill_that_does_not_fit_is_left_out_and_the_tools_are_narrowed_by_the_others(run_demo: Run) -> None:
    prepared = run_demo(DOUBLE_CHARGE).prepared

    assert [(drop.source_id, drop.reason) for drop in prepared.assembly.dropped] == [
        ("shipping-carriers", DropReason.OVER_BUDGET)
    ]
    assert [skill.slug for skill in prepared.assembly.injected_skills] == [
        "order-lookup",
        "refund-policy",
        "invoice-corrections",
    ]
    assert "get_customer" in prepared.gate.names and "sales_summary" not in prepared.gate.names


def test_dry_run_asks_for_exactly_what_the_run_sends(run_demo: Run) -> None:  # A5
    dry = next(request for request in DEMO_RUNS if request.dry_run)
    assert replace(dry, dry_run=False, capture_raw=True, title=DOUBLE_CHARGE.title) == DOUBLE_CHARGE

    run = run_demo(DOUBLE_CHARGE)

    assert run.steps(StepKind.REQUEST)[0].data["body_sha256"] == run.prepared.wire.sha256


def test_support_without_its_tools_says_that_it_could_not_look(run_demo: Run) -> None:
    run = run_demo(replace(DOUBLE_CHARGE, tools=("get_order",)))

    assert run.calls == []
    assert "I had no tool to look at the payments" in run.end.outcome.answer


def test_support_knows_its_own_case_only_and_says_so(run_demo: Run) -> None:
    run = run_demo(RunRequest(configuration="support-triage", prompt="Where is order DJ-48007?"))

    assert run.end.outcome.reason is EndReason.COMPLETED
    assert "knows one case only" in run.end.outcome.answer


def test_report_is_true_to_the_data(run_demo: Run) -> None:
    run = run_demo(OF["shop-reports"])
    told = "".join(message.text for message in run.end.state.messages if message.role == "tool")
    # Sums and differences of figures that the tools gave.
    worked_out = {"250.10", "208.25", "38.40", "6.90", "355.30"}
    figures = {figure.replace(",", "") for figure in AMOUNT.findall(run.end.outcome.answer)}

    assert run.end.outcome.reason is EndReason.COMPLETED and run.end.state.rounds_used == 5
    assert [name for name, failed in run.calls if failed] == ["sales_summary"]
    assert len(figures) > 15
    assert {figure for figure in figures - worked_out if f'"{figure}"' not in told} == set()
    for whole, part, change in [(764.30, 514.20, 250.10), (880.50, 672.25, 208.25), (531.45, 176.15, 355.30)]:
        assert round(whole - part, 2) == change


def test_note_is_cut_off_at_its_limit_and_written_with_a_higher_one(run_demo: Run) -> None:
    cut = run_demo(OF["refund-notes"])
    call = cut.end.state.messages[-1].tool_calls or cut.end.state.messages[-2].tool_calls
    whole = run_demo(replace(OF["refund-notes"], max_tokens=1000))

    assert cut.end.outcome.reason is EndReason.TRUNCATED
    assert call[0].name == "add_order_note" and call[0].arguments is None and call[0].arguments_raw
    assert whole.end.outcome.reason is EndReason.COMPLETED
    assert OrderNote.objects.get().text.startswith("Duplicate charge.")


def test_stubborn_model_uses_up_its_rounds(run_demo: Run) -> None:  # L4, L12
    run = run_demo(OF["endless-lookup"])

    assert run.end.outcome.reason is EndReason.MAX_ROUNDS
    # The six allowed, and the last one that may call no tool.
    assert run.end.state.rounds_used == 7
    assert len(run.calls) == 6
    assert {name for name, _ in run.calls} == {"search_orders"}
    assert max(run.end.state.call_counts.values()) >= 3
    assert "I found no order" in run.end.outcome.answer


def test_overloaded_server_is_asked_again(run_demo: Run) -> None:  # W4
    run = run_demo(OF["rush-hour"])

    assert run.end.outcome.reason is EndReason.COMPLETED
    assert len(run.steps(StepKind.RETRY)) == 1
    order = Order.objects.get(number="DJ-48205")
    assert f"€{order.total}" in run.end.outcome.answer and order.tracking in run.end.outcome.answer
    assert f"({order.created:%-d %B}" in run.end.outcome.answer and order.status == "delivered"


def test_refused_key_ends_the_run(run_demo: Run) -> None:
    run = run_demo(OF["expired-key"])

    assert run.end.outcome.reason is EndReason.PROVIDER_FAILED
    assert run.end.outcome.error is not None and run.end.outcome.error.kind is ErrorKind.AUTHENTICATION


def test_stock_audit_takes_forty_rounds_and_a_summary(run_demo: Run) -> None:
    run = run_demo(OF["stock-audit"])

    assert run.end.outcome.reason is EndReason.COMPLETED
    assert run.end.state.rounds_used == 40
    [compaction] = run.steps(StepKind.COMPACTION)
    assert compaction.data["summarizer"] == "Summaries" and compaction.data["problem"] is None
    assert len({request.data["body_sha256"] for request in run.steps(StepKind.REQUEST)}) == 40
    assert not any(failed for _, failed in run.calls)
    low = re.findall(r"\| `([\w-]+)` \| (\d+) \| (\d+) \|", run.end.outcome.answer)
    told = run.results("stock_levels")[-1].replace(" ", "")
    assert len(low) == 6
    for sku, stock, level in low:
        assert re.search(rf'"sku":"{sku}"[^}}]*"in_stock":{stock},"reorder_at":{level}', told)


@pytest.mark.parametrize(
    ("configuration", "reason"),
    [
        ("slow-writer", EndReason.COMPLETED),
        ("filtered-draft", EndReason.CONTENT_FILTERED),
        ("silent-model", EndReason.EMPTY_ANSWER),
    ],
)
def test_other_configurations_end_as_their_descriptions_say(
    run_demo: Run, configuration: str, reason: EndReason
) -> None:
    assert run_demo(RunRequest(configuration=configuration, prompt="Write.")).end.outcome.reason is reason


def test_the_refund_desk_moves_no_money_where_nobody_can_be_asked(run_demo: Run) -> None:  # P5
    run = run_demo(RunRequest(configuration="refund-desk", prompt="Refund the second charge of DJ-48213."))

    assert run.end.outcome.reason is EndReason.COMPLETED
    assert run.calls[-2:] == [("refund_payment", True), ("list_refunds", False)]
    assert "can't ask a person" in run.results("refund_payment")[0]
    assert not Refund.objects.filter(payment__order__number="DJ-48213").exists()


def test_the_repair_changes_nothing_where_nobody_can_be_asked(
    run_demo: Run, settings: Any, tmp_path: Path
) -> None:  # P5, K4
    root = tmp_path / "workspace"
    entry = {"root": str(root), "write": True, "write_freely": ["notes/**"], "terminal": True}
    settings.LLM_WORKSPACES = {"shop": entry}
    copy_workspace()
    before = (root / "config/checkout.toml").read_text()

    run = run_demo(RunRequest(configuration="checkout-repair", prompt="Repair the VAT for Austria."))

    assert run.end.outcome.reason is EndReason.COMPLETED
    asked = [("write_file", False), ("write_file", True), ("terminal", True), ("emit_artifact", False)]
    assert run.calls[2:] == asked and "can't ask a person" in run.results("terminal")[0]
    assert (root / "config/checkout.toml").read_text() == before
    proposed = run.steps(StepKind.TOOL_CALL)[3].data["arguments"]
    assert run.trace.contents[proposed]["content"] == before.replace("AT = 0.02", "AT = 0.20")
    (file,) = run.trace.contents[run.steps(StepKind.TOOL_RESULT)[-1].data["artifacts"]]
    in_logs = [line for log in (root / "logs").iterdir() for line in log.read_text().splitlines() if "=0.02 " in line]
    listed = file["payload"]["content"].splitlines()[1:]
    assert sorted(re.findall(r"order=(\S+)", "".join(in_logs))) == sorted(row.split(";")[0] for row in listed)
    for row in listed:
        _, _, gross, _, owed = row.split(";")
        assert Decimal(owed) == round(Decimal(gross) / 6, 2)


def test_every_scenario_is_run_by_these_tests() -> None:
    # The stock audit has its summary written.
    tested = {*OF, "summaries", "slow-writer", "filtered-draft", "silent-model", "refund-desk", "checkout-repair"}

    assert len(tested) == len(load_scenarios(SCENARIOS))


def test_the_cause_in_the_files_is_found_and_told_truly(run_demo: Run, settings: Any, tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    settings.LLM_WORKSPACES = {"shop": {"root": str(root), "write": True, "write_freely": ["notes/**"]}}
    copy_workspace()

    run = run_demo(OF["checkout-files"])

    assert run.end.outcome.reason is EndReason.COMPLETED and run.end.state.rounds_used == 5
    assert [failed for _, failed in run.calls] == [False] * 8
    affected = re.findall(r"order=(\S+) .*gross=(\S+) vat_rate=0.02 vat=(\S+)", run.results("search_workspace")[-1])
    booked = sum(Decimal(vat) for _, _, vat in affected)
    owed = sum(round(Decimal(gross) / 6, 2) for _, gross, _ in affected)
    answer = run.end.outcome.answer
    assert f"{len(affected)} orders" in answer
    assert f"Booked are €{booked}, owed €{owed}: €{owed - booked} too little" in answer
    assert "AT = 0.02" in (root / "config/checkout.toml").read_text().splitlines()[7]
    note = (root / "notes/2026-11-29-vat-austria.md").read_text()
    assert set(re.findall(r"`(DJ-\d+)`", note)) == {order for order, _, _ in affected}
