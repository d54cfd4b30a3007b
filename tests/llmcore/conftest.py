"""What the tests of the tool loop share: the loop itself, against a scripted model over a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from llmcore.configuration import LanguageModel, Limits, Parameters, Provider
from llmcore.messages import Message
from llmcore.metering.client import ModelClient, open_http
from llmcore.providers.scripted import RecordedRequest, Scenario, ScriptedModel, Turn, serve
from llmcore.runs.loop import LoopEnd, ToolLoop
from llmcore.runs.state import RunState
from llmcore.tools.registry import ToolRegistry
from llmcore.trace import RunStep, RunTrace, StepKind


def call(name: str, arguments: Any = None, **more: Any) -> dict[str, Any]:
    """A tool call as a turn of the scripted model makes it."""
    return {"name": name, "arguments": {} if arguments is None else arguments, **more}


@dataclass
class LoopBench:
    """A tool loop set up against a scripted model. `tools` are the site's, all offered unless said otherwise."""

    model: ScriptedModel
    url: str
    client: ModelClient
    tools: ToolRegistry = field(default_factory=ToolRegistry)
    trace: RunTrace = field(default_factory=RunTrace)
    adapter: str = "openai_compat"
    language_model: LanguageModel = field(default_factory=lambda: LanguageModel(name="scripted"))

    def script(self, *turns: Turn, times: int | None = None) -> None:
        self.model.scenarios["scripted"] = Scenario(name="scripted", turns=turns, times=times)

    @property
    def provider(self) -> Provider:
        return Provider(
            slug="scripted", name="Scripted", adapter=self.adapter, base_url=self.url, allow_private_hosts=True
        )

    def state(
        self,
        *messages: Message,
        offered: Sequence[str] | None = None,
        parameters: Parameters | None = None,
        **limits: Any,
    ) -> RunState:
        return RunState(
            messages=messages or (Message.of("user", "Where is my order?"),),
            offered=tuple(self.tools.all_tools()) if offered is None else tuple(offered),
            parameters=parameters or Parameters(),
            limits=Limits(**limits),
        )

    def loop(self, **options: Any) -> ToolLoop:
        """A loop that records into `trace` unless told otherwise."""
        settings = {"tools": self.tools.all_tools(), "trace": self.trace, **options}
        return ToolLoop(client=self.client, provider=self.provider, model=self.language_model, **settings)

    async def run(self, state: RunState | None = None, **options: Any) -> LoopEnd:
        return await self.loop(**options).run(self.state() if state is None else state)

    @property
    def requests(self) -> list[RecordedRequest]:
        return self.model.requests

    @property
    def bodies(self) -> list[Any]:
        return [request.json for request in self.model.requests]

    def steps(self, kind: StepKind) -> list[RunStep]:
        return [step for step in self.trace.steps if step.kind is kind]

    def data(self, kind: StepKind) -> list[Mapping[str, Any]]:
        return [step.data for step in self.steps(kind)]

    def results_sent(self) -> list[str]:
        """The texts of all tool results in the newest request."""
        return [message["content"] for message in self.bodies[-1]["messages"] if message["role"] == "tool"]


@pytest.fixture(scope="session")
def scripted_server() -> Iterator[tuple[ScriptedModel, str]]:
    model = ScriptedModel([])
    with serve(model) as url:
        yield model, url


@pytest.fixture
async def bench(scripted_server: tuple[ScriptedModel, str]) -> AsyncIterator[LoopBench]:
    model, url = scripted_server
    model.scenarios.clear()
    model.requests.clear()
    async with open_http() as http:
        yield LoopBench(model=model, url=url, client=ModelClient(http=http))
