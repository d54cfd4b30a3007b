"""A raw HTTP server that answers with scripted responses, byte for byte, in the ways servers end a connection."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal

from llmcore.errors import ConfigurationError
from llmcore.messages import JSON

# Long enough for the client to read one write before the next one comes.
BETWEEN_WRITES_S = 0.002
WHOLE_MODES = frozenset({"json", "text"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Received:
    """A request as it came. Header names are lower case."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    """What the server answers: a status, headers, and the body as a series of network writes.

    Then the connection is closed, unless `ending` says otherwise: "keep" waits for the next request, "drop" closes when
    that one comes without answering it, "hang" sends nothing more, and "reset" breaks the connection off.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    writes: Sequence[bytes] = ()
    whole: bool = True
    ending: Literal["close", "keep", "drop", "hang", "reset"] = "close"

    @classmethod
    def of(cls, transport: Mapping[str, Any], response: JSON) -> Script:
        """The script of a case's `transport` and `response`."""
        mode = transport["mode"]
        return cls(
            status=transport.get("status", 200),
            headers=transport.get("headers") or {},
            writes=writes_of(mode, transport, response),
            whole=mode in WHOLE_MODES,
        )

    @property
    def chunked(self) -> bool:
        return not self.whole and self.ending in ("keep", "drop")

    def head(self) -> bytes:
        try:
            phrase = HTTPStatus(self.status).phrase
        except ValueError:
            phrase = "Status"
        headers = {**self.headers, "connection": "keep-alive" if self.ending in ("keep", "drop") else "close"}
        if self.chunked:
            headers["transfer-encoding"] = "chunked"
        elif self.whole and self.ending != "hang":
            headers["content-length"] = str(sum(map(len, self.writes)))
        lines = [f"HTTP/1.1 {self.status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def framed(self) -> list[bytes]:
        """The writes as they go out."""
        if not self.chunked:
            return list(self.writes)
        return [*(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in self.writes), b"0\r\n\r\n"]


def writes_of(mode: str, transport: Mapping[str, Any], response: JSON) -> list[bytes]:
    match mode:
        case "json":
            return [json.dumps(response).encode()]
        case "text":
            return [str(response).encode("utf-8", "surrogatepass")]
        case "sse":
            return [*events_of(transport, response)]
        case "sse_raw":
            return [text.encode("utf-8", "surrogatepass") for text in response]
        case "sse_raw_b64":
            return [base64.b64decode(text) for text in response]
        case "ndjson":
            return [json.dumps(item).encode() + b"\n" for item in response]
    raise ConfigurationError(f"There is no transport mode {mode!r}.")


def events_of(transport: Mapping[str, Any], response: Sequence[JSON]) -> list[bytes]:
    named = transport.get("event_line_from_type")
    events = []
    for item in response:
        event = f"event: {item['type']}\n" if named and isinstance(item, dict) and "type" in item else ""
        events.append(f"{event}data: {json.dumps(item)}\n\n".encode())
    if transport.get("append_done"):
        events.append(b"data: [DONE]\n\n")
    return events


@dataclass
class ScriptServer:
    """A running server. It answers with its scripts one after the other; the last one repeats.

    `connections` counts the connections that were opened, `gone` is set when a client has left one.
    """

    scripts: Sequence[Script]
    origin: str = ""
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    answering: set[asyncio.Task[None]] = field(default_factory=set)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.ensure_future(self._serve(reader, writer))
        self.answering.add(task)
        task.add_done_callback(self.answering.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            # The client went away; what it makes of that is its own affair.
            self.gone.set()
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection waits for another one."""
        request = await self._request(reader)
        script = self.scripts[min(len(self.received), len(self.scripts) - 1)]
        self.received.append(request)
        writer.write(script.head())
        for index, piece in enumerate(script.framed()):
            if index:
                await asyncio.sleep(BETWEEN_WRITES_S)
            writer.write(piece)
            await writer.drain()
        match script.ending:
            case "hang":
                await reader.read()
                self.gone.set()
            case "reset":
                writer.transport.abort()
            case "drop":
                await self._request(reader)
        return script.ending == "keep"

    async def _request(self, reader: asyncio.StreamReader) -> Received:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        request_line, *lines = head.rstrip("\r\n").split("\r\n")
        method, target, _ = request_line.split(" ", 2)
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        return Received(method=method, url=self.origin + target, headers=headers, body=body)


@asynccontextmanager
async def serve_script(*scripts: Script) -> AsyncIterator[ScriptServer]:
    """Run a server on a free port of this machine."""
    running = ScriptServer(scripts)
    server = await asyncio.start_server(running.accept, "127.0.0.1", 0)
    running.origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield running
    finally:
        server.close()
        await server.wait_closed()
        for task in running.answering:
            task.cancel()
        await asyncio.gather(*running.answering, return_exceptions=True)
