"""One attempt over HTTP: deadlines, bounds, no redirects, streams, and the capture of what went over the wire."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache

import httpx

from llmcore.configuration import Provider
from llmcore.errors import ConfigurationError, ErrorKind, ProviderError
from llmcore.providers.addresses import allowed_reach
from llmcore.providers.base import MASK, TRANSPORT_HEADERS, WireRequest
from llmcore.providers.local_servers import start_advice
from llmcore.providers.network import FRESH, REACH, AddressRefused, CheckedTransport, StaleConnection
from llmcore.trace import WireExchange

MAX_REPLY_BYTES = 32 * 1024 * 1024
# So many pieces of a captured body keep their times; what comes after them is one last piece.
MAX_PIECES = 50_000
# Asked for is plain text. Unpacked, a few bytes can be gigabytes, and captured they would hide what is in them.
PACKED = frozenset({"gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress"})
SECRET_REPLY_HEADERS = frozenset({"set-cookie", "www-authenticate", "proxy-authenticate"})
# What may go wrong between the request and the end of the reply; `failure_of` tells what it was.
FAILURES = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, AddressRefused, ConfigurationError, UnicodeError)


class UnsendableKey(ConfigurationError):
    """The API key can't be part of an HTTP header."""


class ReplyTooLarge(httpx.StreamError):
    """The response is longer than `MAX_REPLY_BYTES`."""

    def __init__(self) -> None:
        super().__init__(f"The response is longer than {MAX_REPLY_BYTES // 1024 // 1024} MiB.")


class PackedReply(httpx.StreamError):
    """The response is compressed."""

    def __init__(self) -> None:
        super().__init__("The server sent a compressed answer although it was asked for a plain one.")


@dataclass(kw_only=True, slots=True)
class Capture:
    """Collects one attempt for the raw capture. The provider's key is masked wherever it turns up."""

    clock: Callable[[], float] = time.monotonic
    started: float = 0.0
    request_headers: dict[str, str] = field(default_factory=dict)
    status: int | None = None
    reply_headers: dict[str, str] = field(default_factory=dict)
    chunks: list[tuple[float, bytes]] = field(default_factory=list)
    rest: bytearray = field(default_factory=bytearray)

    def add(self, chunk: bytes) -> None:
        if len(self.chunks) < MAX_PIECES:
            self.chunks.append((round((self.clock() - self.started) * 1000, 3), chunk))
        else:
            self.rest += chunk

    @property
    def pieces(self) -> list[tuple[float, bytes]]:
        return [*self.chunks, (self.chunks[-1][0], bytes(self.rest))] if self.rest else self.chunks

    def exchange(self, attempt: int, request: WireRequest, key: str, error: str | None) -> WireExchange:
        return WireExchange(
            attempt=attempt,
            method=request.method,
            url=request.url,
            request_headers=self.request_headers or request.masked_headers,
            request_body=request.body,
            status=self.status,
            response_headers={
                name: MASK if name in SECRET_REPLY_HEADERS else hide(value, key)
                for name, value in self.reply_headers.items()
            },
            chunks=masked_chunks(self.pieces, key),
            error=error,
        )


class Reply:
    """An open response. Header names are lower case."""

    def __init__(self, response: httpx.Response, capture: Capture | None) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._capture = capture

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body's bytes as they arrive, bounded."""
        codings = self.headers.get("content-encoding", "").lower().split(",")
        if PACKED.intersection(coding.strip() for coding in codings):
            raise PackedReply
        size = 0
        capture = self._capture
        async for chunk in self._response.aiter_raw():
            size += len(chunk)
            if size > MAX_REPLY_BYTES:
                raise ReplyTooLarge
            if capture is not None:
                capture.add(chunk)
            yield chunk

    async def body(self) -> bytes:
        body = bytearray()
        async for chunk in self.chunks():
            body += chunk
        return bytes(body)


@asynccontextmanager
async def open_reply(
    http: httpx.AsyncBaseTransport,
    request: WireRequest,
    provider: Provider,
    *,
    capture: Capture | None = None,
    fresh: bool = False,
) -> AsyncIterator[Reply]:
    """Send `request` and yield the reply when its headers are there; it is closed at the end.

    Raises one of `FAILURES`. `fresh` asks for a new connection.
    """
    outgoing = outgoing_request(request, provider, fresh)
    if capture is not None:
        capture.started = capture.clock()
        secret = {name.lower() for name in request.secret_headers}
        masked = request.masked_headers
        capture.request_headers = {
            name: masked.get(name, MASK) if name in secret else value for name, value in outgoing.headers.items()
        }
    response = await http.handle_async_request(outgoing)
    try:
        if capture is not None:
            capture.status = response.status_code
            capture.reply_headers = dict(response.headers)
        yield Reply(response, capture)
    finally:
        await response.aclose()


def outgoing_request(request: WireRequest, provider: Provider, fresh: bool) -> httpx.Request:
    reach = allowed_reach(request.url, provider.allow_private_hosts)
    timeout = {
        "connect": provider.connect_timeout_s,
        "read": provider.read_timeout_s,
        "write": provider.read_timeout_s,
        "pool": provider.connect_timeout_s,
    }
    headers = {**request.headers_to_send(), **TRANSPORT_HEADERS}
    for _, secret in request.secret_headers.values():
        if not (value := secret.reveal()).isascii() or not value.isprintable():
            raise UnsendableKey("The API key holds characters that no HTTP header may hold. Enter it again.")
    return httpx.Request(
        request.method,
        parsed(request.url),
        headers=headers,
        content=request.body,
        extensions={"timeout": timeout, REACH: reach, FRESH: fresh},
    )


@lru_cache(maxsize=256)
def parsed(url: str) -> httpx.URL:
    """`url`, read once: all requests of a run go to the same one."""
    return httpx.URL(url)


def failure_of(error: Exception, provider: Provider, *, answering: bool) -> ProviderError:
    """What a failed attempt means. `answering`: the response had begun, so the stream was cut.

    Only the library's texts that are known to hold no header go into the message.
    """
    kind, message = ErrorKind.CONNECTION, ""
    match error:
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            kind, message = ErrorKind.TIMEOUT, f"No connection within {provider.connect_timeout_s:g} s."
        case httpx.TimeoutException():
            kind, message = ErrorKind.TIMEOUT, f"The server sent nothing for {provider.read_timeout_s:g} s."
        case ReplyTooLarge() | PackedReply():
            return ProviderError(kind=ErrorKind.MALFORMED_RESPONSE, message=str(error))
        case UnsendableKey():
            return ProviderError(kind=ErrorKind.AUTHENTICATION, message=str(error))
        case AddressRefused() | ConfigurationError():
            return ProviderError(kind=ErrorKind.CONNECTION, message=str(error))
        case httpx.ConnectError():
            message = f"Can't connect: {error}. {start_advice(provider.base_url, provider.adapter)}".rstrip()
        case httpx.RemoteProtocolError() | httpx.NetworkError():
            message = "The connection broke off."
        case _:
            return ProviderError(kind=ErrorKind.INVALID_REQUEST, message="The request can't be sent as it stands.")
    if answering and kind == ErrorKind.CONNECTION:
        kind, message = ErrorKind.STREAM_INCOMPLETE, "The connection broke off in the middle of the answer."
    return ProviderError(kind=kind, message=message, retryable=True)


def is_stale_connection(error: Exception) -> bool:
    """Whether a server closed a kept-alive connection just as the request went out.

    llama.cpp does so after every streamed answer.
    """
    return isinstance(error, StaleConnection)


def hide(text: str, key: str) -> str:
    """`text` without the key."""
    return text.replace(key, MASK) if key and key in text else text


def masked_chunks(chunks: list[tuple[float, bytes]], key: str) -> tuple[tuple[float, bytes], ...]:
    """The chunks with the key blanked out, one that is cut over two chunks too."""
    secret = key.encode("utf-8", "surrogatepass")
    whole = b"".join(chunk for _, chunk in chunks)
    if not secret or secret not in whole:
        return tuple(chunks)
    whole = whole.replace(secret, b"*" * len(secret))
    masked, start = [], 0
    for at, chunk in chunks:
        masked.append((at, whole[start : start + len(chunk)]))
        start += len(chunk)
    return tuple(masked)


def open_transport() -> httpx.AsyncBaseTransport:
    """The way out for one event loop.

    No client of httpx stands before it: cookies, redirects, proxies and credentials of the environment, which is what
    one would add, must not reach a provider.
    """
    return CheckedTransport()
