"""The one way to a provider: every call is timed, retried, metered and priced here."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from typing import Protocol

import httpx

from llmcore.budgets.base import Budgets
from llmcore.configuration import Provider
from llmcore.errors import ConfigurationError, ErrorKind, ProviderError
from llmcore.messages import Message, ModelResponse
from llmcore.metering.affording import Afforded, afford
from llmcore.metering.attempt import Attempt, make_attempt
from llmcore.metering.backoff import is_passing, wait_after
from llmcore.metering.interrupt import Interrupt
from llmcore.metering.permission import Permission, ask_permission
from llmcore.metering.sending import Completion, Sending
from llmcore.metering.watch import AnswerWatch, Observer
from llmcore.permits.base import Permits
from llmcore.providers import transport
from llmcore.providers.advice import hint_for, unknown_model_hint
from llmcore.providers.base import ModelCall, Transcript, WireReply, WireRequest
from llmcore.providers.call_drafts import with_unique_ids
from llmcore.providers.listing import Listing, nearest, read_listing
from llmcore.providers.registry import adapter_for, adapter_of
from llmcore.providers.retry_after import retry_after_s, should_retry
from llmcore.redaction import Redactor

__all__ = ["Completion", "Meter", "ModelClient", "Observer", "open_http"]

# How long the list of models may take.
LISTING_S = 10.0


class Meter(Protocol):
    """Keeps account of provider calls."""

    def record(self, call: ModelCall, response: ModelResponse, cost: Decimal | None) -> None:
        """One attempt, a failed one too."""


class ModelClient:
    """Makes provider calls. One instance serves many runs of one event loop."""

    def __init__(
        self,
        *,
        http: httpx.AsyncBaseTransport,
        meter: Meter | None = None,
        permits: Permits | None = None,
        budgets: Budgets | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Without `permits` any number of calls may be in flight, without `budgets` they may take any amount. `jitter`
        gives numbers from 0 to 1."""
        self._http = http
        self._meter = meter
        self._permits = permits
        self._budgets = budgets
        self._clock = clock
        self._now = now
        self._sleep = sleep
        self._jitter = jitter

    @property
    def reserves(self) -> bool:
        """Whether calls are made within budgets, so that it matters how many tokens a prompt has."""
        return self._budgets is not None

    def transcript(self, call: ModelCall, messages: Iterable[Message] = ()) -> Transcript:
        return Transcript(adapter_of(call.provider, call.model), call, messages)

    def prepare(self, call: ModelCall, transcript: Transcript) -> WireRequest:
        """The request exactly as `send` will send it."""
        return adapter_of(call.provider, call.model).frame(call, transcript.encoded())

    async def send(
        self,
        call: ModelCall,
        request: WireRequest,
        *,
        taken_ids: Collection[str] = (),
        observer: Observer | None = None,
        capture: bool = False,
        cancel: asyncio.Event | None = None,
        input_tokens: int | None = None,
    ) -> Completion:
        """Make the call, with retries where nothing of the answer had arrived. `input_tokens` is what its prompt may
        have at most, where the caller has counted: what is reserved of budgets depends on it.

        Whatever the server does is in the response. When `cancel` is set the stream is closed at once and the
        response holds what had arrived. The ids of its calls differ from each other and from `taken_ids`.
        """
        adapter = adapter_of(call.provider, call.model)
        if not request.url.startswith(adapter.base_url(call.provider) + "/"):
            raise ConfigurationError("A request goes to the address of its own provider only.")
        sending = Sending(
            call=call,
            request=request,
            adapter=adapter,
            observer=observer,
            capture=capture,
            cancel=cancel,
            input_tokens=input_tokens,
        )
        for number in count(1):
            permitted = await self._permitted(sending, number)
            if permitted is None:
                return self._unsent(sending, attempts=number - 1)
            attempt = permitted
            response = self._finished(attempt, call, taken_ids)
            cost = call.model.prices.cost(response.usage)
            self._report(sending, attempt, number, response, cost)
            if not await self._again(sending, attempt, number, response):
                break
        await self._suggest(response.error, call, cancel)
        return Completion(
            response=ModelResponse(cancelled=True) if attempt.abandoned else response,
            attempts=number - attempt.unsent,
            queued_ms=sending.queued_ms,
            requeued_ms=sending.requeued_ms,
            first_token_ms=attempt.watch.first_token_ms,
            thinking_ms=attempt.watch.thinking_ms,
            cost=cost,
            crossings=tuple(sending.crossings),
        )

    async def listing(self, provider: Provider) -> Listing:
        """The models that a provider says it has. Nothing is metered: it is no call of a model."""
        adapter = adapter_for(provider.adapter)
        try:
            async with asyncio.timeout(LISTING_S):
                opened = transport.open_reply(self._http, adapter.listing(provider), provider)
                async with opened as reply:
                    body = await reply.body()
        except TimeoutError:
            message = f"No list of models within {LISTING_S:g} s."
            return Listing(error=ProviderError(kind=ErrorKind.TIMEOUT, message=message))
        except transport.FAILURES as error:
            return Listing(error=transport.failure_of(error, provider, answering=False))
        listing = read_listing(WireReply(status=reply.status, headers=reply.headers, body=body))
        if listing.error is not None:
            hide_secrets(listing.error, provider.api_key.reveal())
        return listing

    async def _suggest(self, error: ProviderError | None, call: ModelCall, cancel: asyncio.Event | None) -> None:
        """Name the models that are most like one that the provider doesn't know."""
        if error is None or error.kind != ErrorKind.NOT_FOUND or error.status not in (400, 404):
            return
        async with Interrupt(cancel):
            names = (await self.listing(call.provider)).names
            if names and call.model.name not in names:
                error.hint = unknown_model_hint(call, nearest(call.model.name, names), len(names))

    async def _permitted(self, sending: Sending, number: int) -> Attempt | None:
        """One attempt, with a permit while it runs and no longer; `None` where the call was cancelled before it."""
        asked = self._clock()
        permission, provider = Permission(), sending.call.provider
        if self._permits is not None and self._permits.needed(provider):
            permission = await ask_permission(
                self._permits,
                provider,
                attempt=number,
                observer=sending.observer,
                cancel=sending.cancel,
                clock=self._clock,
            )
        now = self._clock()
        if number == 1:
            sending.queued_ms = (now - asked) * 1000
            sending.started, sending.deadline = now, now + provider.total_timeout_s
        else:
            sending.requeued_ms += permission.queued_ms
            sending.deadline += now - asked
        try:
            attempt, afforded = await self._afforded(sending) if permission.given else (None, None)
        finally:
            permission.give_back()
        if attempt is not None and afforded is not None:
            # Budgets that are slow to answer keep nobody from calling.
            await afforded.settle(sending, attempt.response or ModelResponse())
        return attempt

    async def _afforded(self, sending: Sending) -> tuple[Attempt | None, Afforded | None]:
        """One attempt within the budgets, or why it was not made, with what is to be settled; no attempt where the call
        was cancelled before it."""
        if self._budgets is None:
            return await make_attempt(self._http, sending, clock=self._clock), None
        afforded = await afford(self._budgets, sending, within_s=max(sending.deadline - self._clock(), 0.0))
        if afforded.refused is not None:
            watch = AnswerWatch(self._clock, sending.started, None)
            unsent = ModelResponse(error=afforded.refused)
            return Attempt(watch=watch, capture=None, response=unsent, unsent=True), None
        if afforded.reservation is None:
            return None, None
        try:
            attempt = await make_attempt(self._http, sending, clock=self._clock)
        except BaseException:
            afforded.reservation.abandon()
            raise
        return attempt, afforded

    def _unsent(self, sending: Sending, *, attempts: int) -> Completion:
        return Completion(
            response=ModelResponse(cancelled=True),
            attempts=attempts,
            queued_ms=sending.queued_ms,
            requeued_ms=sending.requeued_ms,
            crossings=tuple(sending.crossings),
        )

    def _report(
        self, sending: Sending, attempt: Attempt, number: int, response: ModelResponse, cost: Decimal | None
    ) -> None:
        """Tell the meter, and whoever looks at the wire, of one attempt that was made."""
        if attempt.unsent:
            return
        if self._meter is not None:
            self._meter.record(sending.call, response, cost)
        if attempt.capture is not None and sending.observer is not None:
            key = sending.call.provider.api_key.reveal()
            error = str(response.error) if response.error else None
            sending.observer.exchange(attempt.capture.exchange(number, sending.request, key, error))

    async def _again(self, sending: Sending, attempt: Attempt, number: int, response: ModelResponse) -> bool:
        """Wait for the next attempt; whether there is one. A stream cut after its first token is never tried again."""
        error = response.error
        if error is None or number >= sending.call.provider.max_attempts or attempt.watch.first_token_ms is not None:
            return False
        if not (is_passing(error) or attempt.retry_wanted):
            return False
        wait = wait_after(error, number, sending.deadline - self._clock(), self._jitter)
        if wait is None:
            return False
        if sending.observer is not None:
            sending.observer.retry(number, error, wait)
        async with Interrupt(sending.cancel) as interrupt:
            await self._sleep(wait)
        attempt.abandoned = interrupt.fired
        return not interrupt.fired

    def _finished(self, attempt: Attempt, call: ModelCall, taken_ids: Collection[str]) -> ModelResponse:
        """The response of an attempt, as callers may see it: ids unique, no key in an error."""
        response = attempt.response or ModelResponse()
        if (error := response.error) is not None:
            if attempt.reply is not None:
                self._heed(attempt, attempt.reply, error)
            error.hint = error.hint or hint_for(error, call)
            hide_secrets(error, call.provider.api_key.reveal())
        calls = response.tool_calls
        if calls and taken_ids:
            unique = with_unique_ids(calls, taken_ids)
            if unique != calls:
                response = replace(response, message=replace(response.message, tool_calls=unique))
        return response

    def _heed(self, attempt: Attempt, reply: transport.Reply, error: ProviderError) -> None:
        """What the server itself says about another attempt."""
        if error.retry_after_s is None:
            error.retry_after_s = retry_after_s(reply.headers, self._now())
        if (wanted := should_retry(reply.headers)) is not None:
            error.retryable = attempt.retry_wanted = wanted


def hide_secrets(error: ProviderError, key: str) -> None:
    """Take the key, and what looks like another one, out of the texts of an error: they are shown and logged."""
    redactor = Redactor([key])
    for name in ("message", "code", "param", "failed_generation", "hint"):
        if (value := getattr(error, name)) is not None:
            setattr(error, name, redactor.patterns(transport.hide(value, key)))


def open_http() -> httpx.AsyncBaseTransport:
    """The HTTP connections of one event loop. Proxies and credentials of the environment are not used."""
    return transport.open_transport()
