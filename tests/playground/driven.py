"""What tests of driven runs share: a model that answers over a real socket, configurations that use it, tools."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from django.db import connections
from django.utils import timezone

from llmcore.models import Configuration
from llmcore.providers.scripted.app import ScriptedModel
from llmcore.providers.scripted.scenario import Scenario, Turn
from llmcore.providers.scripted.server import serve
from llmcore.tools.base import Tool
from llmcore.tools.registry import site_tools
from playground.models import Run
from playground.services.drive_run import drive_run
from playground.services.start_run import RunRequest, write_run
from playground.services.sweep import sweep
from tests.factories import ConfigurationFactory, LanguageModelFactory, ProviderFactory

WAIT_S = 60.0

# The steps of a request that gets as far as being sent, of a round that ends with an answer, and of one with a call.
SENT = ["request", "context"]
ANSWERED = [*SENT, "response"]
CALLED = [*ANSWERED, "tool_call", "tool_result"]


@dataclass(frozen=True)
class Script:
    """A scripted model that is being served, and a configuration for its scenario."""

    model: ScriptedModel
    url: str
    configuration: Configuration

    def request(self, **changes: object) -> RunRequest:
        return RunRequest(**{"configuration": self.configuration.slug, "prompt": "Hello?", **changes})  # type: ignore[arg-type]

    def run(self, **changes: object) -> Run:
        """A run, driven to its end."""
        return self.drive(write_run(request=self.request(**changes), by=None))

    def drive(self, run: Run) -> Run:
        assert drive_run(run_id=run.pk, worker="test")
        run.refresh_from_db()
        return run


@contextmanager
def script(*turns: Turn, key: str | None = None, **configuration: object) -> Iterator[Script]:
    model = ScriptedModel([Scenario(name="scripted", turns=turns)])
    with serve(model) as url:
        provider = ProviderFactory(base_url=url, allow_private_hosts=True, key=key)
        row = ConfigurationFactory(model=LanguageModelFactory(provider=provider, name="scripted"), **configuration)
        yield Script(model, url, row)


@contextmanager
def site_tool(tool: Tool) -> Iterator[Tool]:
    """A tool that this site has for the time of a test."""
    site_tools.register(tool, place="a test")
    try:
        yield tool
    finally:
        del site_tools._tools[tool.name]


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"name": name, "arguments": arguments}


def wait_for(ready: Callable[[], object], what: str = "the expected state", timeout_s: float = WAIT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not ready():
        assert time.monotonic() < deadline, f"waited for {what} in vain"
        time.sleep(0.01)


def lose_worker(run: Run) -> None:
    """Let the lease be over and the reaper find it, as if the run's worker had died; again where it wrote meanwhile."""

    def lost() -> bool:
        Run.objects.filter(pk=run.pk, status="running").update(lease_until=timezone.now() - timedelta(seconds=1))
        sweep(now=timezone.now())
        run.refresh_from_db()
        return run.status != "running"

    wait_for(lost, "the run to be taken from its worker")


@contextmanager
def in_background(work: Callable[[], object]) -> Iterator[threading.Thread]:
    """Runs `work` beside the test, with database connections of its own, and waits for its end."""

    def run() -> None:
        try:
            work()
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield thread
    finally:
        thread.join(WAIT_S)
        assert not thread.is_alive(), "the work beside the test did not end"
