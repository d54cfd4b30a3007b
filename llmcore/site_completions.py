"""Structured completions for the code of a site: with its prompts, configurations and usage records."""

from __future__ import annotations

import asyncio
import queue
from concurrent.futures import Future, ThreadPoolExecutor
from decimal import Decimal
from typing import Any

from llmcore import store
from llmcore.budgets.run import RunBudgets
from llmcore.errors import InvalidTarget
from llmcore.messages import ModelResponse
from llmcore.metering.client import ModelClient, open_http
from llmcore.providers.base import ModelCall
from llmcore.redaction import Redactor
from llmcore.site_budgets import site_budgets
from llmcore.site_permits import site_permits
from llmcore.structured.completion import StructuredAnswer, complete
from llmcore.structured.packs import site_prompts
from llmcore.structured.recorder import UseRecorder
from llmcore.structured.request import Ready, StructuredRequest, make_ready

Record = tuple[ModelCall, ModelResponse, Decimal | None]


def complete_structured(
    request: StructuredRequest, *, user: Any = None, recorder: UseRecorder | None = None
) -> StructuredAnswer:
    """Make the completion and wait for it. What is wrong with the request is a ConfigurationError before any call;
    CompletionFailed says how it ended otherwise. Each call is a usage record of `user`.

    From a coroutine: `await sync_to_async(complete_structured, thread_sensitive=False)(request)`.
    """
    ready = ready_request(request)
    meter = store.DatabaseMeter(
        user=user, configuration_id=ready.configuration.id, redactor=Redactor(store.secret_values())
    )
    records = _Records()
    budgets = site_budgets(configuration=ready.configuration, user=user)
    with ThreadPoolExecutor(1, thread_name_prefix="completion") as pool:
        # The database belongs to this thread: the other one only reports.
        answer = pool.submit(lambda: asyncio.run(_complete(ready, records, budgets, recorder)))
        answer.add_done_callback(records.close)
        for record in iter(records.items.get, None):
            meter.record(*record)
        return answer.result()


def ready_request(request: StructuredRequest, *, read_keys: bool = True) -> Ready:
    """The request with the configuration that it names, or its prompt does; no call is made."""
    prompt = site_prompts.prompt(request.prompt)
    slug = request.configuration or prompt.configuration
    if not slug:
        raise InvalidTarget(f"The prompt “{prompt.id}” names no configuration of its own: name one in the request.")
    configuration = store.load_configuration(slug, read_keys=read_keys)
    return make_ready(request, registry=site_prompts, configuration=configuration)


class _Records:
    """Hands usage over from the thread that makes the calls."""

    def __init__(self) -> None:
        self.items: queue.SimpleQueue[Record | None] = queue.SimpleQueue()

    def record(self, call: ModelCall, response: ModelResponse, cost: Decimal | None) -> None:
        self.items.put((call, response, cost))

    def close(self, ended: Future[StructuredAnswer]) -> None:
        self.items.put(None)


async def _complete(
    ready: Ready, records: _Records, budgets: RunBudgets, recorder: UseRecorder | None
) -> StructuredAnswer:
    async with open_http() as http, site_permits() as permits, budgets:
        return await complete(
            ready,
            client=lambda meter: ModelClient(http=http, meter=meter, permits=permits, budgets=budgets or None),
            meter=records,
            recorder=recorder,
        )
