"""Runs cases: each against its adapter, over a real socket, through the metered client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from llmcore.errors import ConfigurationError, ProviderError
from llmcore.management.wire_check.checks import failed_checks
from llmcore.management.wire_check.expectations import differences, leaks, price_differences
from llmcore.management.wire_check.neutral import call_of, clock_of, messages_of, results_of
from llmcore.management.wire_check.server import Received, Script, serve_script
from llmcore.messages import JSON, Delta, ModelResponse
from llmcore.metering.client import ModelClient, open_http
from llmcore.permits.base import Place
from llmcore.providers.registry import adapter_for, adapters
from llmcore.runs.transcript import mend
from llmcore.trace import WireExchange

Case = Mapping[str, Any]
StorageCheck = Callable[[Mapping[str, JSON], ModelResponse], Iterator[str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """How a case went: it passed, or what differs, or why it was skipped."""

    case_id: str
    differences: tuple[str, ...] = ()
    skipped: str | None = None

    @property
    def failed(self) -> bool:
        return bool(self.differences)

    def __str__(self) -> str:
        if self.skipped is not None:
            return f"{self.case_id} skipped: {self.skipped}"
        return f"{self.case_id} {'; '.join(self.differences) if self.differences else 'pass'}"


@dataclass(slots=True)
class Replayed:
    """What one case gave: the response, the requests as the server got them, and the captured exchanges."""

    response: ModelResponse
    requests: list[Received]
    exchanges: list[WireExchange]


@dataclass(slots=True)
class Recorder:
    """An observer that keeps the captured exchanges."""

    exchanges: list[WireExchange] = field(default_factory=list)

    def delta(self, delta: Delta) -> None:
        """Pieces are not looked at: the response holds their sum."""

    def waiting(self, place: Place) -> None:
        """Cases need no permits."""

    def waited(self, place: Place, waited_ms: float, *, attempt: int, granted: bool) -> None:
        """So they wait for none."""

    def retry(self, attempt: int, error: ProviderError, wait_s: float) -> None:
        """Cases are tried once."""

    def exchange(self, exchange: WireExchange) -> None:
        self.exchanges.append(exchange)


def load_cases(path: Path) -> list[Case]:
    """The cases of a file, one JSON object a line; ConfigurationError for a file that holds something else."""
    cases: list[Case] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if line.strip():
            try:
                case = json.loads(line)
                cases.append({**case, "id": case["id"], "adapter": case.get("adapter") or case["provider"]})
            except (ValueError, TypeError, KeyError) as error:
                raise ConfigurationError(f"{path}, line {number}: this is no case ({error}).") from error
    return cases


def load_tools(path: Path) -> Mapping[str, JSON]:
    """The tools that the cases name, from the file beside them."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def run_cases(cases: Sequence[Case], tools: Mapping[str, JSON], check_storage: StorageCheck) -> Iterator[Verdict]:
    """Run the cases one after the other."""
    for case in cases:
        if case["adapter"] not in adapters():
            yield Verdict(case_id=case["id"], skipped=f"there is no adapter {case['adapter']!r}")
            continue
        try:
            found = tuple(judge(case, asyncio.run(replay(case, tools)), check_storage))
        except (ConfigurationError, KeyError, TypeError, ValueError, AttributeError) as error:
            found = (f"the case can't be run: {type(error).__name__}: {error}",)
        yield Verdict(case_id=case["id"], differences=found)


async def replay(case: Case, tools: Mapping[str, JSON]) -> Replayed:
    """Send the case's request, and, where it says something about the next one, that one too."""
    context = case["request_context"]
    adapter = adapter_for(case["adapter"])
    now = clock_of(context)
    recorder = Recorder()
    async with serve_script(Script.of(case["transport"], case["response"])) as server, open_http() as http:
        client = ModelClient(http=http, now=lambda: now or datetime.now(UTC))
        call = call_of(context, tools, adapter, server.origin)
        messages, _ = mend(messages_of(context["messages"]))
        transcript = client.transcript(call, messages)
        completion = await client.send(
            call,
            client.prepare(call, transcript),
            taken_ids=transcript.call_ids,
            observer=recorder,
            capture=True,
        )
        if case.get("next_request_must"):
            transcript.extend([completion.response.message, *results_of(context, completion.response)])
            await client.send(call, client.prepare(call, transcript), taken_ids=transcript.call_ids)
    return Replayed(completion.response, server.received, recorder.exchanges)


def judge(case: Case, replayed: Replayed, check_storage: StorageCheck) -> Iterator[str]:
    """What differs from the case, one line each."""
    response = replayed.response
    yield from differences(case["expected"], response)
    if response.error is not None:
        yield from leaks(case.get("must_not_contain") or (), response.error)
        yield from leaks(case["expected"].get("must_not_contain") or (), response.error)
    for name, number in (("request_must", 0), ("next_request_must", 1)):
        checks = case.get(name)
        if checks and len(replayed.requests) <= number:
            yield f"{name}: no such request was sent"
        elif checks:
            yield from (f"{name}: {line}" for line in failed_checks(checks, replayed.requests[number]))
    if check := case.get("price_check"):
        yield from price_differences(check, response)
    if wanted := case.get("storage_must"):
        yield from check_storage(wanted, response)
    yield from exposed_key(case["request_context"].get("api_key"), replayed)


def exposed_key(key: str | None, replayed: Replayed) -> Iterator[str]:
    """Whether the key shows in what is kept of the exchange."""
    if key and key in repr(replayed.exchanges):
        yield "the raw capture contains the key"
