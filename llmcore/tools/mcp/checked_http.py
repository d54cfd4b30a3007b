"""The SDK's way to a server over HTTP: by the rules that hold for providers, over the same connections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import contextmanager
from typing import Any

import httpx
import httpx2

from llmcore.configuration import Secret
from llmcore.errors import ConfigurationError
from llmcore.providers.addresses import allowed_reach
from llmcore.providers.network import REACH, AddressRefused, CheckedTransport
from llmcore.tools.mcp.server import MCPServer

MAX_REPLY_BYTES = 8 * 1024 * 1024
REDIRECTS = frozenset({301, 302, 303, 307, 308})


class CheckedHTTP(httpx2.AsyncBaseTransport):
    """Sends to the server's own address only, to checked addresses of its host, with its key; follows no redirect and
    reads bounded replies. `problem` is the last thing that went wrong, in words without any secret."""

    def __init__(self, server: MCPServer, key: Secret) -> None:
        self._server = server
        self._key = key
        self._address = httpx2.URL(server.url)
        self._reach = allowed_reach(server.url, server.allow_private_hosts)
        self._inner = CheckedTransport()
        self.problem = ""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url != self._address:
            raise httpx2.UnsupportedProtocol("only the address of the server itself is called")
        headers = [(name, value) for name, value in request.headers.raw if name.lower() not in (b"accept-encoding",)]
        headers.append((b"accept-encoding", b"identity"))
        if self._key:
            headers.append((b"authorization", f"Bearer {self._key.reveal()}".encode("ascii")))
        outgoing = httpx.Request(
            request.method,
            self._server.url,
            headers=headers,
            content=await request.aread(),
            extensions={"timeout": request.extensions.get("timeout", {}), REACH: self._reach},
        )
        with self._explained():
            reply = await self._inner.handle_async_request(outgoing)
        if reply.status_code in REDIRECTS:
            await reply.aclose()
            self.problem = "it answers with a redirect, which is not followed. Enter the address that it leads to."
            raise httpx2.RemoteProtocolError("a redirect is not followed")
        if reply.status_code in (401, 403):
            wants = "refuses the key" if self._key else "wants a key"
            self.problem = f"it {wants} (HTTP {reply.status_code}). Enter one that has the rights for its tools."
        elif reply.status_code >= 500:
            self.problem = f"it fails by itself (HTTP {reply.status_code}). Look into its log."
        return httpx2.Response(
            reply.status_code,
            headers=reply.headers.raw,
            stream=Body(self, reply),
            request=request,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()

    @contextmanager
    def _explained(self) -> Any:
        """Raise the SDK's kind of exception for ours, and keep in words what it was."""
        try:
            yield
        except (AddressRefused, ConfigurationError) as error:
            self.problem = str(error)
            raise httpx2.ConnectError("the address is refused") from None
        except httpx.ConnectTimeout:
            self.problem = (
                f"there was no connection within {self._server.connect_timeout_s:g} seconds. Look whether it runs."
            )
            raise httpx2.ConnectTimeout("no connection in time") from None
        except httpx.ConnectError:
            self.problem = "there is no connection to it. Look whether it runs, and whether its address is right."
            raise httpx2.ConnectError("no connection") from None
        except (httpx.HTTPError, httpx.StreamError):
            self.problem = "the connection broke off. Look whether it still runs."
            raise httpx2.ReadError("the connection broke off") from None


class Body(httpx2.AsyncByteStream):
    """A reply as it arrives, bounded."""

    def __init__(self, http: CheckedHTTP, reply: httpx.Response) -> None:
        self._http = http
        self._reply = reply

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        with self._http._explained():
            async for chunk in self._reply.stream:  # type: ignore[union-attr]
                size += len(chunk)
                if size > MAX_REPLY_BYTES:
                    self._http.problem = (
                        f"its answer has more than {MAX_REPLY_BYTES // 1024 // 1024} MiB. Ask it for less at once."
                    )
                    raise httpx2.ReadError("the reply is too large")
                yield chunk

    async def aclose(self) -> None:
        await self._reply.aclose()
