"""What real runs find out about themselves: the loop against a scripted model, read by the findings."""

from __future__ import annotations

from typing import Any

import pytest

from llmcore.errors import ToolError
from llmcore.findings import Finding, RunView, find
from llmcore.providers.scripted import Turn
from llmcore.trace import RunTrace, StepKind
from tests.llmcore.conftest import LoopBench, call

DONE = Turn(text="Done.")


@pytest.fixture
def shop(bench: LoopBench) -> LoopBench:
    """A bench with a tool that knows one field only."""

    @bench.tools.tool()
    def search_orders(field: str) -> str:
        """Search the orders."""
        if field != "status":
            raise ToolError(f"Cannot resolve keyword {field!r} into field. Choices are: status")
        return "2 orders"

    return bench


async def found(bench: LoopBench, **limits: Any) -> list[Finding]:
    """The findings of a run, but for those that each run of an unpriced model with unused tools has."""
    state = bench.state(**limits)
    end = await bench.run(state)
    # As they are stored and read again.
    trace = RunTrace.from_json(bench.trace.to_json())
    view = RunView(
        steps=trace.steps,
        contents=trace.contents,
        reason=end.outcome.reason,
        offered=state.offered,
        limits=state.limits,
    )
    return [finding for finding in find(view) if finding.id not in ("unpriced_model", "unused_tools")]


def shown(bench: LoopBench, finding: Finding) -> StepKind:
    """The kind of the step that a finding leads to."""
    return next(step.kind for step in bench.trace.steps if step.sequence == finding.sequence)


async def test_a_run_that_went_well_has_none(shop: LoopBench) -> None:
    shop.script(Turn(tool_calls=(call("search_orders", {"field": "status"}),)), DONE)
    assert await found(shop) == []


async def test_a_failed_call_and_its_correction_are_found(shop: LoopBench) -> None:
    wrong, right = ({"field": field} for field in ("payment_status", "status"))
    shop.script(
        Turn(tool_calls=(call("search_orders", wrong),)), Turn(tool_calls=(call("search_orders", right),)), DONE
    )
    (finding,) = await found(shop)
    assert finding.title == "`search_orders` failed"
    assert "Cannot resolve keyword 'payment_status'" in finding.detail
    assert finding.detail.endswith("The model corrected the call in round 2.")
    assert finding.impact.startswith("+1 round, ")
    assert shown(shop, finding) is StepKind.TOOL_CALL


async def test_a_schema_violation_is_found_with_its_pointer(shop: LoopBench) -> None:
    shop.script(Turn(tool_calls=(call("search_orders", {"fields": 1}),)), DONE)
    (finding,) = await found(shop)
    assert finding.id == "schema_violation"
    assert finding.detail.startswith("/field")


async def test_an_answer_cut_off_with_a_call_in_it_is_found(shop: LoopBench) -> None:  # F
    cut = Turn(tool_calls=(call("search_orders", '{"field": "sta'),), finish_reason="length")
    shop.script(cut, DONE)
    findings = await found(shop)
    assert {finding.id for finding in findings} == {"truncated_by_length", "truncated_arguments"}


async def test_broken_arguments_are_found(shop: LoopBench) -> None:  # F
    shop.script(Turn(tool_calls=(call("search_orders", '{"field": "sta'),)), DONE)
    (finding,) = await found(shop)
    assert (finding.id, shown(shop, finding)) == ("truncated_arguments", StepKind.TOOL_CALL)


async def test_a_tool_that_does_not_exist_is_found(shop: LoopBench) -> None:  # F
    shop.script(Turn(tool_calls=(call("refund_all"),)), DONE)
    (finding,) = await found(shop)
    assert finding.id == "tool_not_offered"


async def test_the_same_call_again_and_again_and_the_limit_are_found(shop: LoopBench) -> None:  # F
    shop.script(Turn(tool_calls=(call("search_orders", {"field": "status"}),)))
    findings = await found(shop, max_rounds=3)
    assert [finding.id for finding in findings] == ["max_rounds_with_work_left", "repeated_call"]
    assert "`search_orders`" in findings[0].detail
    assert "3 times" in findings[1].title or "4 times" in findings[1].title


async def test_missing_usage_is_found(shop: LoopBench) -> None:  # F
    shop.script(Turn(text="Done.", usage={}))
    (finding,) = await found(shop)
    assert finding.id == "usage_missing"
    assert shown(shop, finding) is StepKind.REQUEST


async def test_a_failed_provider_is_found(shop: LoopBench) -> None:
    shop.script(Turn(status=401, error={"message": "Incorrect API key", "type": "invalid_request_error"}))
    (finding,) = await found(shop)
    assert finding.id == "provider_error"
    assert "HTTP 401" in finding.title
    assert "has no API key here" in finding.detail


async def test_an_answer_without_words_is_found(shop: LoopBench) -> None:
    shop.script(Turn(text=""))
    (finding,) = await found(shop)
    assert finding.id == "empty_answer"


async def test_an_answer_in_the_thinking_field_is_found(shop: LoopBench) -> None:
    shop.script(Turn(thinking="The order is at the customs."))
    (finding,) = await found(shop)
    assert finding.id == "answer_in_thinking"
