"""The one way to a provider: every call is timed, retried, metered and priced here."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Protocol

import httpx

from llmcore.errors import RETRYABLE_STATUSES, ConfigurationError, ErrorKind, ProviderError
from llmcore.messages import Message, ModelResponse
from llmcore.metering.interrupt import Interrupt
from llmcore.metering.watch import AnswerWatch, Observer
from llmcore.providers import transport
from llmcore.providers.base import Adapter, ModelCall, StreamDecoder, Transcript, WireReply, WireRequest
from llmcore.providers.call_drafts import with_unique_ids
from llmcore.providers.registry import adapter_for
from llmcore.providers.retry_after import retry_after_s, should_retry

__all__ = ["Completion", "Meter", "ModelClient", "Observer", "open_http"]

FIRST_WAIT_S = 0.5
MAX_WAIT_S = 8.0
# A server that asks for more than this is better tried again by a person.
MAX_ASKED_WAIT_S = 120.0
# How long the end of a connection may take after the stream's own sign of its end.
DRAIN_S = 1.0
WHOLE_MEDIA_TYPES = frozenset({"application/json", "application/problem+json", "text/html"})
STREAM_MEDIA_TYPES = frozenset({"text/event-stream", "application/x-ndjson"})
RETRIED_KINDS = frozenset({ErrorKind.CONNECTION, ErrorKind.TIMEOUT, ErrorKind.STREAM_INCOMPLETE})


class Meter(Protocol):
    """Keeps account of provider calls."""

    def record(self, call: ModelCall, response: ModelResponse, cost: Decimal | None) -> None:
        """One attempt, a failed one too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """How a call ended. Times are milliseconds since it began, `None` where nothing was streamed; `cost` is `None`
    where it is unpriced or unknown."""

    response: ModelResponse
    attempts: int = 1
    first_token_ms: float | None = None
    thinking_ms: float | None = None
    cost: Decimal | None = None


@dataclass(kw_only=True, slots=True)
class Attempt:
    """One try at a call, while it runs and after."""

    number: int
    watch: AnswerWatch
    capture: transport.Capture | None
    decoder: StreamDecoder | None = None
    reply: transport.Reply | None = None
    response: ModelResponse | None = None
    stale: bool = False
    retry_wanted: bool = False


class ModelClient:
    """Makes provider calls. One instance serves many runs of one event loop."""

    def __init__(
        self,
        *,
        http: httpx.AsyncClient,
        meter: Meter | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`jitter` gives numbers from 0 to 1."""
        self._http = http
        self._meter = meter
        self._clock = clock
        self._now = now
        self._sleep = sleep
        self._jitter = jitter

    def transcript(self, call: ModelCall, messages: Iterable[Message] = ()) -> Transcript:
        return Transcript(adapter_for(call.provider.adapter), call, messages)

    def prepare(self, call: ModelCall, transcript: Transcript) -> WireRequest:
        """The request exactly as `send` will send it."""
        return adapter_for(call.provider.adapter).frame(call, transcript.encoded())

    async def send(
        self,
        call: ModelCall,
        request: WireRequest,
        *,
        taken_ids: Collection[str] = (),
        observer: Observer | None = None,
        capture: bool = False,
        cancel: asyncio.Event | None = None,
    ) -> Completion:
        """Make the call, with retries where nothing of the answer had arrived.

        Whatever the server does is in the response. When `cancel` is set the stream is closed at once and the
        response holds what had arrived. The ids of its calls differ from each other and from `taken_ids`.
        """
        adapter = adapter_for(call.provider.adapter)
        if not request.url.startswith(adapter.base_url(call.provider) + "/"):
            raise ConfigurationError("A request goes to the address of its own provider only.")
        started = self._clock()
        deadline = started + call.provider.total_timeout_s
        number = 0
        while True:
            number += 1
            watch = AnswerWatch(self._clock, started, observer)
            attempt = await self._attempt(adapter, call, request, number, watch, capture, cancel, deadline)
            response = self._finished(attempt, call, taken_ids)
            cost = call.model.prices.cost(response.usage)
            if self._meter is not None:
                self._meter.record(call, response, cost)
            if attempt.capture is not None and observer is not None:
                error = str(response.error) if response.error else None
                observer.exchange(attempt.capture.exchange(number, request, call.provider.api_key.reveal(), error))
            wait = self._wait_s(attempt, response, call, deadline)
            if wait is None or response.error is None:
                break
            if observer is not None:
                observer.retry(number, response.error, wait)
            async with Interrupt(cancel) as interrupt:
                await self._sleep(wait)
            if interrupt.fired:
                response = ModelResponse(cancelled=True)
                break
        return Completion(
            response=response,
            attempts=number,
            first_token_ms=watch.first_token_ms,
            thinking_ms=watch.thinking_ms,
            cost=cost,
        )

    async def _attempt(
        self,
        adapter: Adapter,
        call: ModelCall,
        request: WireRequest,
        number: int,
        watch: AnswerWatch,
        capture: bool,
        cancel: asyncio.Event | None,
        deadline: float,
    ) -> Attempt:
        """One attempt, and one more on a fresh connection where the kept-alive one turned out to be closed."""
        for fresh in (False, True):
            record = transport.Capture(clock=self._clock) if capture else None
            attempt = Attempt(number=number, watch=watch, capture=record)
            failure = None
            async with Interrupt(cancel) as interrupt:
                failure = await self._exchange(attempt, adapter, call, request, deadline, fresh)
            if interrupt.fired:
                attempt.response = attempt.decoder.finish(cancelled=True) if attempt.decoder else None
                attempt.response = attempt.response or ModelResponse(cancelled=True)
            elif failure is not None:
                attempt.response = failed(attempt, failure)
            if not attempt.stale:
                break
        return attempt

    async def _exchange(
        self, attempt: Attempt, adapter: Adapter, call: ModelCall, request: WireRequest, deadline: float, fresh: bool
    ) -> ProviderError | None:
        """Send and read; the failure of the way there and back, if there was one."""
        remaining = max(deadline - self._clock(), 0.0)
        try:
            async with asyncio.timeout(remaining) as limit:
                opened = transport.open_reply(self._http, request, call.provider, capture=attempt.capture, fresh=fresh)
                async with opened as reply:
                    attempt.reply = reply
                    await self._read(attempt, reply, adapter, call, limit)
        except TimeoutError:
            seconds = call.provider.total_timeout_s
            return ProviderError(
                kind=ErrorKind.TIMEOUT, message=f"No complete answer within {seconds:g} s.", retryable=True
            )
        except transport.FAILURES as error:
            attempt.stale = not fresh and attempt.reply is None and transport.is_stale_connection(error)
            return transport.failure_of(error, call.provider, answering=attempt.reply is not None)
        finally:
            attempt.watch.end()
        return None

    async def _read(
        self, attempt: Attempt, reply: transport.Reply, adapter: Adapter, call: ModelCall, limit: asyncio.Timeout
    ) -> None:
        if not is_stream(reply, adapter, call):
            body = await reply.body()
            attempt.response = adapter.decode(WireReply(status=reply.status, headers=reply.headers, body=body), call)
            return
        decoder = attempt.decoder = adapter.stream_decoder(call)
        async for chunk in reply.chunks():
            if not decoder.done:
                attempt.watch.take(decoder.feed(chunk))
                if decoder.done:
                    # Read to the end of the body, so that the connection can be used again.
                    limit.reschedule(asyncio.get_running_loop().time() + DRAIN_S)
        attempt.response = decoder.finish()

    def _finished(self, attempt: Attempt, call: ModelCall, taken_ids: Collection[str]) -> ModelResponse:
        """The response of an attempt, as callers may see it: ids unique, no key in an error."""
        response = attempt.response or ModelResponse()
        if (error := response.error) is not None:
            if attempt.reply is not None:
                self._heed(attempt, attempt.reply, error)
            hide_key(error, call.provider.api_key.reveal())
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

    def _wait_s(self, attempt: Attempt, response: ModelResponse, call: ModelCall, deadline: float) -> float | None:
        """How long to wait before the next attempt; `None` where there is none."""
        error = response.error
        if error is None or attempt.number >= call.provider.max_attempts or attempt.watch.first_token_ms is not None:
            return None
        passing = error.status in RETRYABLE_STATUSES or error.kind in RETRIED_KINDS or attempt.retry_wanted
        if not (error.retryable and passing):
            return None
        if error.retry_after_s is not None:
            wait = error.retry_after_s * (1 + 0.1 * self._jitter())
            return wait if wait <= min(MAX_ASKED_WAIT_S, deadline - self._clock()) else None
        wait = min(FIRST_WAIT_S * 2 ** (attempt.number - 1), MAX_WAIT_S) * (0.5 + 0.5 * self._jitter())
        return wait if wait <= deadline - self._clock() else None


def is_stream(reply: transport.Reply, adapter: Adapter, call: ModelCall) -> bool:
    """Whether the body is to be read as a stream: by what it says it is, else by what was asked for."""
    if reply.status >= 300:
        return False
    media_type = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    if call.stream:
        return media_type == adapter.stream_media_type or media_type not in WHOLE_MEDIA_TYPES
    return media_type == adapter.stream_media_type


def failed(attempt: Attempt, failure: ProviderError) -> ModelResponse:
    """The response where the connection failed: what had arrived, and why there is no more.

    An answer that had already come to its end is not spoiled by a connection that breaks after it.
    """
    if attempt.decoder is None:
        return ModelResponse(error=failure)
    response = attempt.decoder.finish()
    if response.error is not None and response.error.kind == ErrorKind.STREAM_INCOMPLETE:
        failure.status = attempt.reply.status if attempt.reply is not None else None
        return replace(response, error=failure)
    return response


def hide_key(error: ProviderError, key: str) -> None:
    error.message = transport.hide(error.message, key)
    for name in ("code", "param", "failed_generation"):
        if (value := getattr(error, name)) is not None:
            setattr(error, name, transport.hide(value, key))


def open_http() -> httpx.AsyncClient:
    """The HTTP client of one event loop. Proxies and credentials of the environment are not used."""
    return httpx.AsyncClient(transport=transport.open_transport(), trust_env=False, follow_redirects=False)
