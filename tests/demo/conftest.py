"""What the tests of the demo share: the loaded demo, and runs of it against its scripted model over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections

from demo.management.commands.demo_model import SCENARIOS
from demo.services import load_demo
from llmcore.messages import JSON
from llmcore.metering.client import ModelClient, open_http
from llmcore.providers.scripted import Scenario, ScriptedModel, load_scenarios, serve
from llmcore.runs.loop import LoopEnd, ToolLoop
from llmcore.tools.base import ToolContext
from llmcore.tools.registry import all_tools
from llmcore.trace import RunTrace, StepKind
from playground.services.prepare_run import PreparedRun, context_for, prepare_run
from playground.services.start_run import RunRequest


@dataclass(frozen=True, kw_only=True)
class DemoRun:
    """A finished run of the demo with its trace."""

    prepared: PreparedRun
    end: LoopEnd
    trace: RunTrace

    @property
    def calls(self) -> list[tuple[str, bool]]:
        """The tools that were called and whether that failed."""
        return [(step.data["name"], step.data["is_error"]) for step in self.steps(StepKind.TOOL_RESULT)]

    def steps(self, kind: StepKind) -> list[Any]:
        return [step for step in self.trace.steps if step.kind is kind]

    def results(self, tool: str) -> list[str]:
        """What the model got from `tool`."""
        return [message.text for message in self.end.state.messages if message.role == "tool" and message.name == tool]


def without_delays(scenario: Scenario) -> Scenario:
    return replace(
        scenario,
        turns=tuple(replace(turn, delay_s=0, chunk_delay_s=0, chunk_chars=400) for turn in scenario.turns),
        cases=tuple(map(without_delays, scenario.cases)),
    )


@pytest.fixture(scope="session")
def scenarios() -> dict[str, Scenario]:
    return load_scenarios(SCENARIOS)


@pytest.fixture(scope="session")
def demo_model_url(scenarios: dict[str, Scenario]) -> Iterator[str]:
    with serve(ScriptedModel(without_delays(scenario) for scenario in scenarios.values())) as url:
        yield url


@pytest.fixture
def demo(db: None) -> None:
    load_demo(demo_model_url="http://127.0.0.1:8766/v1")


@pytest.fixture
def run_demo(transactional_db: None, demo_model_url: str) -> Callable[[RunRequest], DemoRun]:
    """Runs a request through the same preparation and loop as a worker. Tools run in threads, so rows are committed."""
    load_demo(demo_model_url=demo_model_url)
    admin = User.objects.create_superuser("maren")

    def run(request: RunRequest) -> DemoRun:
        prepared = prepare_run(request=request, user=admin)
        trace = RunTrace()

        async def drive() -> LoopEnd:
            async with open_http() as http:
                loop = ToolLoop(
                    client=ModelClient(http=http),
                    provider=prepared.call.provider,
                    model=prepared.call.model,
                    tools={tool.name: tool for tool in prepared.gate.offered},
                    context=context_for(prepared.configuration, user=admin),
                    trace=trace,
                    after_tool=connections.close_all,
                    summarizer=prepared.configuration.summarizer,
                )
                return await loop.run(prepared.state)

        return DemoRun(prepared=prepared, end=asyncio.run(drive()), trace=trace)

    return run


@pytest.fixture
def use(demo: None) -> Callable[..., JSON]:
    """Calls a tool as the loop does, by default for a user who may do everything."""
    superuser = User.objects.create_superuser("maren")

    def call(name: str, user: Any = superuser, /, **arguments: Any) -> JSON:
        tool = all_tools()[name]
        if tool.context_parameter:
            arguments[tool.context_parameter] = ToolContext(user=user)
        return tool.run(**arguments)

    return call
