"""A tool loop of a real model that has no tool calls of its own: it chooses in JSON, held to a schema by its server."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from llmcore.configuration import Limits, Parameters
from llmcore.messages import Message
from llmcore.metering.client import ModelClient, open_http
from llmcore.providers.base import ModelCall
from llmcore.runs.loop import ToolLoop
from llmcore.runs.outcome import EndReason
from llmcore.runs.state import RunState
from llmcore.tools.registry import ToolRegistry
from llmcore.trace import RunTrace, StepKind
from tests.real_model.served import Site

ASKED = Message.of("user", "Look up order 4711 and tell me its status.")


async def run_of(call: ModelCall, registry: ToolRegistry, trace: RunTrace, **limits: int) -> EndReason:
    state = RunState(
        messages=(ASKED,),
        offered=tuple(registry.all_tools()),
        parameters=Parameters(temperature=0.0, max_tokens=120),
        limits=Limits(**limits),
    )
    async with open_http() as http:
        loop = ToolLoop(
            client=ModelClient(http=http),
            provider=call.provider,
            model=replace(call.model, supports_tools=True, tools_as_json=True),
            tools=registry.all_tools(),
            trace=trace,
        )
        return (await loop.run(state)).outcome.reason


def test_a_small_model_calls_a_tool_and_goes_on_with_its_result(site: Site) -> None:
    registry, trace, asked = ToolRegistry(), RunTrace(), []

    @registry.tool()
    async def look_up_order(number: str) -> str:
        """Tells the status of an order by its number."""
        asked.append(number)
        return f"Order {number} was sent on Monday."

    reason = asyncio.run(run_of(site.call(), registry, trace, max_rounds=3))

    rounds = [step.data for step in trace.steps if step.kind is StepKind.RESPONSE]
    assert len(rounds) >= 2 and asked and "4711" in asked[0]
    assert rounds[0]["finish_reason"] == "tool_calls" and rounds[0]["calls"][0]["name"] == "look_up_order"
    assert all(data["error"] is None for data in rounds)
    # Whether so small a model stops in time is its own affair; that it is stopped is ours.
    assert reason in (EndReason.COMPLETED, EndReason.MAX_ROUNDS)
    assert [step.data["is_error"] for step in trace.steps if step.kind is StepKind.TOOL_RESULT] == [False] * len(asked)
