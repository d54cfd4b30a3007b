"""The way out to the network: pooled connections that are opened to checked addresses only."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import contextmanager
from typing import Any

import httpcore
import httpx

from llmcore.providers import tcp
from llmcore.providers.addresses import Reach, reach_of, refusal

MAX_CONNECTIONS = 200
# Names of the request extensions that this transport understands.
REACH = "llmcore.reach"
FRESH = "llmcore.fresh"


class AddressRefused(Exception):
    """The host resolves to no address that may be called; the text says why."""


class StaleConnection(httpx.NetworkError):
    """A kept-alive connection turned out to be closed: the server may have done so just as the request went out."""


class CheckedBackend(httpcore.AsyncNetworkBackend):
    """Resolves a host, and connects to the very address that was checked: a name can't change in between."""

    def __init__(self, allowed: frozenset[Reach]) -> None:
        self._allowed = allowed

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = await self._resolve(host, port, timeout)
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in addresses:
            try:
                return await tcp.connect(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    async def _resolve(self, host: str, port: int, timeout: float | None) -> list[str]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"{host} could not be resolved in time") from None
        except (OSError, UnicodeError):
            raise httpcore.ConnectError(f"{host} can't be resolved") from None
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        usable = [address for address in addresses if reach_of(address) in self._allowed]
        if addresses and not usable:
            raise AddressRefused(refusal(host, addresses, self._allowed))
        return usable

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise AddressRefused("A provider is reached over TCP only.")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class CheckedTransport(httpx.AsyncBaseTransport):
    """Sends requests over pools of connections, one for each set of addresses that a request may reach.

    So a connection that one provider may use is never lent to another that may not. A request marked `FRESH` gets a
    connection of its own.
    """

    def __init__(self) -> None:
        self._pools: dict[tuple[frozenset[Reach], bool, bool], httpcore.AsyncConnectionPool] = {}
        self._ssl_context: ssl.SSLContext | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        allowed = request.extensions.get(REACH, frozenset({"public"}))
        pool = self._pool(allowed, url.scheme == "https", bool(request.extensions.get(FRESH)))
        way = Way()
        outgoing = httpcore.Request(
            method=request.method,
            url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions={**request.extensions, "trace": way.note},
        )
        with httpx_errors(way):
            response = await pool.handle_async_request(outgoing)
        return httpx.Response(
            status_code=response.status,
            headers=response.headers,
            stream=ReplyStream(response),
            extensions=response.extensions,
        )

    def _pool(self, allowed: frozenset[Reach], encrypted: bool, fresh: bool) -> httpcore.AsyncConnectionPool:
        key = (allowed, encrypted, fresh)
        if key not in self._pools:
            if encrypted and self._ssl_context is None:
                self._ssl_context = httpx.create_ssl_context()
            self._pools[key] = httpcore.AsyncConnectionPool(
                ssl_context=self._ssl_context,
                max_connections=MAX_CONNECTIONS,
                max_keepalive_connections=0 if fresh else MAX_CONNECTIONS,
                keepalive_expiry=60.0,
                network_backend=CheckedBackend(allowed),
            )
        return self._pools[key]

    async def aclose(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()


class Way:
    """How a request went out: over a connection that was `opened` for it, or over a kept one."""

    def __init__(self) -> None:
        self.opened = False

    async def note(self, event: str, facts: object) -> None:
        """What httpcore tells of the request."""
        if event == "connection.connect_tcp.started":
            self.opened = True


class ReplyStream(httpx.AsyncByteStream):
    """The body of a response, as it arrives."""

    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with httpx_errors():
            async for chunk in self._response.aiter_stream():
                yield chunk

    async def aclose(self) -> None:
        await self._response.aclose()


@contextmanager
def httpx_errors(way: Way | None = None) -> Any:
    """Raise httpx's exception for the one of httpcore of the same name; StaleConnection where the `way` to the server
    broke off that was there before the request."""
    try:
        yield
    except (httpcore.RemoteProtocolError, httpcore.ReadError, httpcore.WriteError) as error:
        if way is not None and not way.opened:
            raise StaleConnection(str(error)) from None
        raise httpx_error(error) from None
    except (
        httpcore.TimeoutException,
        httpcore.NetworkError,
        httpcore.ProtocolError,
        httpcore.UnsupportedProtocol,
    ) as error:
        raise httpx_error(error) from None


def httpx_error(error: Exception) -> httpx.TransportError:
    kind: type[httpx.TransportError] = getattr(httpx, type(error).__name__, httpx.TransportError)
    return kind(str(error))
