"""TCP connections straight on asyncio. With those that httpcore brings, a call takes a fifth more processor time."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import httpcore

# So much may have arrived and not been read before the other side has to wait.
MAX_WAITING = 256 * 1024


async def connect(
    address: str, port: int, timeout: float | None, local_address: str | None, socket_options: Iterable[Any] | None
) -> TCPStream:
    """A connection to an IP address. Raises httpcore's `ConnectTimeout` or `ConnectError`."""
    async with bounded(timeout, httpcore.ConnectTimeout, httpcore.ConnectError):
        local = (local_address, 0) if local_address else None
        _, stream = await asyncio.get_running_loop().create_connection(TCPStream, address, port, local_addr=local)
        for option in socket_options or ():
            stream.get_extra_info("socket").setsockopt(*option)
    return stream


class TCPStream(httpcore.AsyncNetworkStream, asyncio.Protocol):
    """One connection, plain or encrypted. Nobody reads and writes at the same time."""

    def __init__(self) -> None:
        self._transport: Any = None
        self._arrived = bytearray()
        self._ended = False
        self._failure: Exception | None = None
        self._full = False
        self._change: asyncio.Future[None] | None = None

    # What asyncio tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._arrived += data
        if len(self._arrived) > MAX_WAITING:
            self._transport.pause_reading()
        self._changed()

    def eof_received(self) -> None:
        self._ended = True
        self._changed()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        self._failure = exc
        self._changed()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._changed()

    def _changed(self) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(None)

    async def _wait(self) -> None:
        self._change = asyncio.get_running_loop().create_future()
        await self._change

    # What httpcore asks for

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if not self._arrived and not self._ended:
            async with bounded(timeout, httpcore.ReadTimeout, httpcore.ReadError):
                await self._wait()
        if not self._arrived and self._failure is not None:
            raise httpcore.ReadError(reason_of(self._failure)) from self._failure
        data = bytes(self._arrived[:max_bytes])
        del self._arrived[:max_bytes]
        if len(self._arrived) <= MAX_WAITING:
            self._transport.resume_reading()
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._transport.write(buffer)
        if self._full:
            async with bounded(timeout, httpcore.WriteTimeout, httpcore.WriteError):
                while self._full and not self._ended:
                    await self._wait()
        if self._transport.is_closing():
            raise httpcore.WriteError("the connection is closed")

    async def aclose(self) -> None:
        # No farewell: what was not sent yet is not wanted any more, and nobody waits for an answer to it.
        self._transport.abort()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> TCPStream:
        try:
            async with bounded(timeout, httpcore.ConnectTimeout, httpcore.ConnectError):
                self._transport = await asyncio.get_running_loop().start_tls(
                    self._transport, self, ssl_context, server_hostname=server_hostname
                )
        except BaseException:
            self._transport.abort()
            raise
        return self

    def get_extra_info(self, info: str) -> Any:
        match info:
            case "is_readable":
                # Asked of a connection that waits for its next request: whatever comes there is its end.
                return bool(self._arrived) or self._ended or self._transport.is_closing()
            case "client_addr":
                return self._transport.get_extra_info("sockname")
            case "server_addr":
                return self._transport.get_extra_info("peername")
        return self._transport.get_extra_info(info)


@asynccontextmanager
async def bounded(timeout: float | None, timed_out: type[Exception], failed: type[Exception]) -> AsyncIterator[None]:
    """Raise httpcore's exceptions for a wait that takes too long, or fails."""
    try:
        async with asyncio.timeout(timeout):
            yield
    except TimeoutError:
        raise timed_out from None
    except OSError as error:
        raise failed(reason_of(error)) from error


def reason_of(error: Exception) -> str:
    """What the system says about it. asyncio adds the address, which the reader knows."""
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.errno is not None:
        return os.strerror(error.errno)
    return str(error)
