"""The scripted model as an ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmcore.messages import JSON
from llmcore.providers.scripted.check import Refused, check_request
from llmcore.providers.scripted.reply import Reply, error_of
from llmcore.providers.scripted.scenario import Scenario, Turn
from llmcore.providers.scripted.tongues import TONGUES, Tongue

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

KEPT_REQUESTS = 200
KEPT_COUNTS = 1_000
MAX_BODY_BYTES = 32 * 1024 * 1024


@dataclass(kw_only=True, slots=True)
class RecordedRequest:
    """A request as it came: exact body bytes, header names in lower case.

    `answered` is true once the whole answer is out, `disconnected` where the client closed the connection before.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    answered: bool = False
    disconnected: bool = False

    @property
    def json(self) -> JSON:
        return json.loads(self.body)


class ClientGone(Exception):
    """The client closed the connection."""


class Connection:
    """One request's connection: sends, and waits without missing that the client left."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._gone = asyncio.Event()
        self._watcher: asyncio.Task[None] | None = None

    async def body(self) -> bytes:
        body = bytearray()
        while True:
            event = await self._receive()
            if event["type"] == "http.disconnect":
                raise ClientGone
            body += event.get("body", b"")
            if len(body) > MAX_BODY_BYTES:
                raise Refused(413, f"The request is larger than {MAX_BODY_BYTES} bytes.")
            if not event.get("more_body"):
                self._watcher = asyncio.create_task(self._watch())
                return bytes(body)

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone.set()

    async def close(self) -> None:
        if self._watcher:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher

    async def pause(self, seconds: float) -> None:
        if seconds > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), seconds)
        if self._gone.is_set():
            raise ClientGone

    async def start(self, status: int, content_type: str, headers: Mapping[str, str], length: int | None) -> None:
        sent = {"content-type": content_type, **{name.lower(): str(value) for name, value in headers.items()}}
        if length is not None:
            sent["content-length"] = str(length)
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in sent.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def write(self, body: bytes, *, more: bool) -> None:
        if self._gone.is_set():
            raise ClientGone
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def answer(self, status: int, value: JSON, headers: Mapping[str, str]) -> None:
        body = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
        await self.start(status, "application/json", headers, len(body))
        await self.write(body, more=False)


class ScriptedModel:
    """A model server that answers from scenarios, streamed or not, in each of the wire formats; the path of a request
    says in which one. `GET …/models` lists the scenarios.

    `requests` holds the last requests, the newest at the end. The output limit of a request is kept to: a longer turn
    is cut and ends by length, unless it has a finish reason of its own.
    """

    def __init__(
        self,
        scenarios: Mapping[str, Scenario] | Iterable[Scenario],
        *,
        keep_requests: int = KEPT_REQUESTS,
        tongues: Sequence[Tongue] = TONGUES,
    ) -> None:
        listed = scenarios.values() if isinstance(scenarios, Mapping) else scenarios
        self.scenarios = {scenario.name: scenario for scenario in listed}
        self.requests: list[RecordedRequest] = []
        self.tongues = tongues
        self._keep_requests = keep_requests
        self._failures: dict[bytes, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"The scripted model speaks HTTP, not {scope['type']}.")
        connection = Connection(receive, send)
        recorded = RecordedRequest(
            method=scope["method"],
            path=scope["path"],
            headers={name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]},
            body=b"",
        )
        try:
            recorded.body = await connection.body()
            self._record(recorded)
            recorded.answered = await self._answer(recorded, connection)
        except Refused as refused:
            tongue = self._tongue(recorded.path)
            body = tongue.error(refused.status, str(refused), param=refused.param, code=refused.code)
            await connection.answer(refused.status, body, {})
            recorded.answered = True
        except ClientGone:
            recorded.disconnected = True
        finally:
            await connection.close()

    def _record(self, request: RecordedRequest) -> None:
        self.requests.append(request)
        del self.requests[: max(len(self.requests) - self._keep_requests, 0)]

    async def _answer(self, recorded: RecordedRequest, connection: Connection) -> bool:
        """Whether the answer was sent whole."""
        path = recorded.path.rstrip("/")
        tongue = self._tongue(path)
        if recorded.method == "GET" and path.endswith(("/models", "/api/tags")):
            await connection.answer(200, tongue.models(sorted(self.scenarios)), {})
            return True
        if recorded.method == "POST" and tongue.hears(path):
            return await self._complete(tongue, path, recorded.body, connection)
        raise Refused(404, f"Invalid URL ({recorded.method} {recorded.path})", code="unknown_url")

    def _tongue(self, path: str) -> Tongue:
        """Who is spoken to at `path`; the first one answers where nobody is."""
        # Two list their models in a way of their own.
        path = path.replace("/api/tags", "/api/chat")
        if path.endswith("/v1beta/models"):
            path += "/any:generateContent"
        return next((tongue for tongue in self.tongues if tongue.hears(path.rstrip("/"))), self.tongues[0])

    async def _complete(self, tongue: Tongue, path: str, body: bytes, connection: Connection) -> bool:
        try:
            asked = json.loads(body)
        except ValueError as error:
            raise Refused(400, f"We could not parse the JSON body of your request: {error}") from error
        if not isinstance(asked, dict):
            raise Refused(400, "The body of the request must be a JSON object.")
        request = tongue.understand(path, asked)
        check_request(request)
        turn = self._turn(request, body)
        reply = Reply.to(request, body, turn)
        headers = {"x-request-id": f"req_{reply.seed[-24:]}", **turn.headers}
        await connection.pause(turn.delay_s)
        if turn.raw is not None:
            kind = tongue.stream_type if request.get("stream") else "application/json"
            await connection.start(turn.status, kind, headers, None)
            await connection.write(turn.raw.encode("utf-8", "surrogatepass"), more=False)
        elif turn.status >= 400 or (turn.error is not None and not request.get("stream")):
            await connection.answer(turn.status, error_of(turn, tongue), headers)
        elif request.get("stream"):
            return await stream(reply, tongue, connection, headers)
        elif turn.cut_after_chars is not None:
            whole = json.dumps(tongue.whole(reply.said()), ensure_ascii=False).encode("utf-8", "surrogatepass")
            await connection.start(200, "application/json", headers, len(whole))
            await connection.write(whole[: min(turn.cut_after_chars, len(whole) - 1)], more=True)
            return False
        else:
            await connection.answer(turn.status, tongue.whole(reply.said()), headers)
        return True

    def _turn(self, request: Mapping[str, JSON], body: bytes) -> Turn:
        scenario = self.scenarios.get(str(request.get("model")))
        if scenario is None:
            names = ", ".join(sorted(self.scenarios))
            raise Refused(
                404, f"The model '{request.get('model')}' does not exist. Models are: {names}.", param="model"
            )
        scenario = next((case for case in scenario.cases if mentions(request["messages"], case.about)), scenario)
        answered = scenario.answered(request["messages"])
        turn = self._obstacle(scenario, answered, body) or scenario.turn(answered)
        if turn.fails:
            return turn
        if scenario.about and not mentions(request["messages"], scenario.about):
            return Turn(text=scenario.otherwise, delay_s=turn.delay_s, chunk_delay_s=turn.chunk_delay_s)
        if turn.tool_calls and not may_call(request, turn, only_offered=scenario.only_offered):
            return Turn(text=scenario.without_tools, delay_s=turn.delay_s, chunk_delay_s=turn.chunk_delay_s)
        return turn

    def _obstacle(self, scenario: Scenario, answered: int, body: bytes) -> Turn | None:
        obstacles = scenario.obstacles(answered)
        if not obstacles or scenario.times is None:
            return obstacles[0] if obstacles else None
        # A retry sends the same bytes again.
        key = hashlib.sha256(body).digest()
        met = self._failures.pop(key, 0)
        if met >= len(obstacles):
            return None
        if len(self._failures) >= KEPT_COUNTS:
            self._failures.clear()
        self._failures[key] = met + 1
        return obstacles[met]


async def stream(reply: Reply, tongue: Tongue, connection: Connection, headers: Mapping[str, str]) -> bool:
    """Send the answer in pieces; whether it was sent whole."""
    turn, said = reply.turn, reply.said()
    await connection.start(200, tongue.stream_type, {"cache-control": "no-cache", **headers}, None)
    for index, piece in enumerate(tongue.pieces(said)):
        # What opens the answer and its first piece come together.
        if index > 1:
            await connection.pause(turn.chunk_delay_s)
        await connection.write(piece, more=True)
    if turn.cut_after_chars is not None:
        # An application that returns before its answer is complete makes the server close the connection.
        return False
    if turn.error is not None:
        await connection.write(tongue.error_piece(error_of(turn, tongue)), more=False)
        return True
    for piece in tongue.ending(said):
        await connection.write(piece, more=True)
    await connection.write(b"", more=False)
    return True


def may_call(request: Mapping[str, JSON], turn: Turn, *, only_offered: bool) -> bool:
    offered = {tool["function"]["name"] for tool in request.get("tools") or ()}
    if not offered or request.get("tool_choice") == "none":
        return False
    return not only_offered or turn.called_names <= offered


def mentions(messages: Iterable[Mapping[str, JSON]], words: Iterable[str]) -> bool:
    said = " ".join(
        json.dumps(message.get("content"), ensure_ascii=False) for message in messages if message["role"] == "user"
    ).lower()
    return any(word.lower() in said for word in words)
