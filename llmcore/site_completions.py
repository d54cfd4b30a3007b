"""Structured completions for the code of a site: with its prompts, configurations and usage records."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from decimal import Decimal
from functools import partial
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
    redactor = Redactor(store.secret_values())
    meter = store.DatabaseMeter(user=user, configuration_id=ready.configuration.id, redactor=redactor)
    budgets, work = site_budgets(configuration=ready.configuration, user=user), _Work()
    with ThreadPoolExecutor(1, thread_name_prefix="completion") as pool:
        # The database belongs to this thread: the other one only reports.
        answer = pool.submit(lambda: asyncio.run(work.complete(ready, budgets, recorder, redactor)))
        answer.add_done_callback(lambda _: work.records.put(None))
        try:
            for record in iter(work.records.get, None):
                meter.record(*record)
        except BaseException:
            # Whoever ends this thread's waiting (a signal, a time limit) wants no answer any more.
            work.stop()
            raise
        return answer.result()


def ready_request(request: StructuredRequest, *, read_keys: bool = True) -> Ready:
    """The request with the configuration that it names, or its prompt does; no call is made."""
    prompt = site_prompts.prompt(request.prompt)
    slug = request.configuration or prompt.configuration
    if not slug:
        raise InvalidTarget(f"The prompt “{prompt.id}” names no configuration of its own: name one in the request.")
    configuration = store.load_configuration(slug, read_keys=read_keys)
    return make_ready(request, registry=site_prompts, configuration=configuration)


class _Work:
    """A completion on a thread of its own, which hands its usage over."""

    def __init__(self) -> None:
        self.records: queue.SimpleQueue[Record | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._cancel: Callable[[], object] = self._stopped.set

    def record(self, call: ModelCall, response: ModelResponse, cost: Decimal | None) -> None:
        self.records.put((call, response, cost))

    def stop(self) -> None:
        """Cancel what is under way; its stream is closed at once."""
        self._stopped.set()
        # The loop is closed where the work has just ended.
        with suppress(RuntimeError):
            self._cancel()

    async def complete(
        self, ready: Ready, budgets: RunBudgets, recorder: UseRecorder | None, redactor: Redactor
    ) -> StructuredAnswer:
        cancel, loop = asyncio.Event(), asyncio.get_running_loop()
        self._cancel = partial(loop.call_soon_threadsafe, cancel.set)
        if self._stopped.is_set():
            cancel.set()
        async with open_http() as http, site_permits() as permits, budgets:
            return await complete(
                ready,
                client=lambda meter: ModelClient(http=http, meter=meter, permits=permits, budgets=budgets or None),
                meter=self,
                recorder=recorder,
                cancel=cancel,
                redact=redactor.patterns,
            )
