"""One try at a call: it is sent, its answer is read, and what had arrived is made a response of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

import httpx

from llmcore.errors import ErrorKind, ProviderError
from llmcore.messages import ModelResponse
from llmcore.metering.interrupt import Interrupt
from llmcore.metering.sending import Sending
from llmcore.metering.watch import AnswerWatch
from llmcore.providers import transport
from llmcore.providers.base import Adapter, ModelCall, StreamDecoder, WireReply

# How long the end of a connection may take after the stream's own sign of its end.
DRAIN_S = 1.0
WHOLE_MEDIA_TYPES = frozenset({"application/json", "application/problem+json", "text/html"})


@dataclass(kw_only=True, slots=True)
class Attempt:
    """One try at a call, while it runs and after.

    `stale`: its kept-alive connection turned out to be closed. `retry_wanted`: the server asks for another attempt.
    `abandoned`: the call was cancelled while it waited for that. `unsent`: it was not made, and the response says why.
    """

    watch: AnswerWatch
    capture: transport.Capture | None
    decoder: StreamDecoder | None = None
    reply: transport.Reply | None = None
    response: ModelResponse | None = None
    stale: bool = False
    retry_wanted: bool = False
    abandoned: bool = False
    unsent: bool = False

    def settle(self, failure: ProviderError | None, *, cancelled: bool) -> None:
        """Make a response of what had arrived when the attempt was broken off.

        An answer that had already come to its end is not spoiled by what happens to the connection after it.
        """
        if self.response is not None:
            return
        response = self.decoder.finish(cancelled=cancelled) if self.decoder else ModelResponse(cancelled=cancelled)
        if failure is not None and not cancelled:
            incomplete = response.error is not None and response.error.kind == ErrorKind.STREAM_INCOMPLETE
            if self.decoder is None or incomplete:
                failure.status = self.reply.status if self.decoder and self.reply else None
                response = replace(response, error=failure)
        self.response = response


async def make_attempt(http: httpx.AsyncBaseTransport, sending: Sending, *, clock: Callable[[], float]) -> Attempt:
    """One attempt, and one more on a fresh connection where the kept-alive one turned out to be closed."""
    for fresh in (False, True):
        attempt = Attempt(
            watch=AnswerWatch(clock, sending.started, sending.observer),
            capture=transport.Capture(clock=clock) if sending.capture else None,
        )
        failure = None
        async with Interrupt(sending.cancel) as interrupt:
            left_s = max(sending.deadline - clock(), 0.0)
            failure = await _exchange(http, sending, attempt, fresh=fresh, left_s=left_s)
        attempt.watch.end()
        attempt.settle(failure, cancelled=interrupt.fired)
        if not attempt.stale:
            break
    return attempt


async def _exchange(
    http: httpx.AsyncBaseTransport, sending: Sending, attempt: Attempt, *, fresh: bool, left_s: float
) -> ProviderError | None:
    """Send and read; the failure of the way there and back, if there was one."""
    provider = sending.call.provider
    try:
        async with asyncio.timeout(left_s) as limit:
            opened = transport.open_reply(http, sending.request, provider, capture=attempt.capture, fresh=fresh)
            async with opened as attempt.reply:
                await _read(sending, attempt, attempt.reply, limit)
    except TimeoutError:
        message = f"No complete answer within {provider.total_timeout_s:g} s."
        return ProviderError(kind=ErrorKind.TIMEOUT, message=message, retryable=True)
    except transport.FAILURES as error:
        attempt.stale = not fresh and attempt.reply is None and transport.is_stale_connection(error)
        return transport.failure_of(error, provider, answering=attempt.reply is not None)
    return None


async def _read(sending: Sending, attempt: Attempt, reply: transport.Reply, limit: asyncio.Timeout) -> None:
    adapter, call = sending.adapter, sending.call
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


def is_stream(reply: transport.Reply, adapter: Adapter, call: ModelCall) -> bool:
    """Whether the body is to be read as a stream: by what it says it is, else by what was asked for."""
    if reply.status >= 300:
        return False
    media_type = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    if call.stream:
        return media_type == adapter.stream_media_type or media_type not in WHOLE_MEDIA_TYPES
    return media_type == adapter.stream_media_type
