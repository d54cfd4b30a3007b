"""A request as code: run for real, it sends what the runtime sent, and the key is nowhere in it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

import pytest

from llmcore.management.wire_check.server import ScriptServer, serve_script
from llmcore.messages import Message
from llmcore.metering.client import ModelClient, open_http
from llmcore.providers.request_code import (
    RepeatableRequest,
    curl_command,
    httpx_code,
    repeatable_request,
    variable_name,
)
from llmcore.trace import WireExchange
from tests.llmcore.voices import CITY, KEY, VOICES, Said, Voice, ask, call_to
from tests.services import program

HEADERS = {"content-type": "application/json", "accept": "text/event-stream", "authorization": "Bearer •••"}


@dataclass
class Captured:
    """An observer that keeps what was captured."""

    exchanges: list[WireExchange] = field(default_factory=list)

    def exchange(self, exchange: WireExchange) -> None:
        self.exchanges.append(exchange)

    def delta(self, delta: object) -> None: ...

    def retry(self, attempt: int, error: object, wait_s: float) -> None: ...


@pytest.fixture
async def server() -> AsyncIterator[ScriptServer]:
    async with serve_script(VOICES[0].script(Said(text="Hello"), stream=True)) as server:
        yield server


async def run_both(request: RepeatableRequest, environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """What bash with curl and what Python print, each with its complaints."""
    printed = []
    for arguments, code in (
        ([program("bash"), "-s"], curl_command(request)),
        ([sys.executable, "-"], httpx_code(request)),
    ):
        assert KEY not in code
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "PYTHONUTF8": "1", **environment},
        )
        out, complaints = await process.communicate(code.encode())
        printed.append((out.decode(), complaints.decode()))
    return printed


@pytest.mark.parametrize("voice", VOICES, ids=lambda voice: voice.adapter)
async def test_code_of_a_captured_request_sends_the_same_one(voice: Voice) -> None:
    captured = Captured()
    text = 'It\'s a "test"\\n: `id` $(id) ${HOME} !! %s\r\n\ttab, Grüße, 你好, 🙂, \u2028, \x01, \x7f, \ud800.'
    messages = (Message.of("system", "Be brief."), Message.of("user", text))
    async with serve_script(voice.script(Said(text="Hello"), stream=True)) as server:
        async with open_http() as http:
            client = ModelClient(http=http)
            await ask(client, call_to(voice, server.origin, tools=(CITY,)), messages, observer=captured, capture=True)
        (exchange,) = captured.exchanges
        request = repeatable_request(
            method=exchange.method,
            url=exchange.url,
            headers=exchange.request_headers,
            body=exchange.request_body,
            key_variable="TEST_API_KEY",
        )
        assert request is not None
        by_curl, by_httpx = await run_both(request, {"TEST_API_KEY": KEY})

    sent, curl, httpx = server.received
    assert curl == httpx == sent
    assert sent.headers[voice.key_header] == f"{voice.key_prefix}{KEY}"
    assert '"He"' in by_curl[0] and by_httpx[0].startswith("200 OK") and by_httpx[1] == ""


async def test_a_body_that_is_too_long_for_an_argument_is_sent_whole(server: ScriptServer) -> None:
    body = '{"text":"' + "it's ü\\n" * 200_000 + '"}'
    request = RepeatableRequest(method="POST", url=f"{server.origin}/v1/chat", headers=HEADERS, body=body)

    await run_both(request, {"API_KEY": KEY})

    assert [received.body for received in server.received] == [body.encode()] * 2
    assert server.received[0] == server.received[1]


async def test_any_header_and_address_goes_out_as_it_was(server: ScriptServer) -> None:
    headers = {
        **HEADERS,
        "X-Quotes": 'it\'s "so" `x` $HOME \\ %s !!',
        "x-empty": "",
        "x-tenant-token": "a•••b",
        "host": "elsewhere.example",
        "content-length": "7",
    }
    url = server.origin + "/v1/[a]{b}/../c?q='1'&x=%2F ü"
    request = RepeatableRequest(method="PUT", url=url, headers=headers, body="{}", key_variable="DEMO_API_KEY")

    assert request.variables == ["DEMO_API_KEY", "X_TENANT_TOKEN"]
    await run_both(request, {"DEMO_API_KEY": KEY, "X_TENANT_TOKEN": "\"$HOME'"})

    curl, httpx = server.received
    assert curl == httpx
    assert curl.method == "PUT"
    assert curl.headers["x-quotes"] == headers["X-Quotes"]
    assert curl.headers["x-tenant-token"] == "a\"$HOME'b"
    assert curl.headers["x-empty"] == ""
    assert curl.headers["content-length"] == "2"
    assert curl.headers["host"] in server.origin


async def test_a_request_without_a_key_or_usual_headers_gets_none(server: ScriptServer) -> None:
    request = RepeatableRequest(method="POST", url=f"{server.origin}/", headers={}, body="{}")

    await run_both(request, {})

    curl, httpx = server.received
    assert curl == httpx
    assert set(curl.headers) == {"host", "content-length", "accept-encoding", "user-agent"}


async def test_nothing_is_sent_where_the_key_is_not_set(server: ScriptServer) -> None:
    request = RepeatableRequest(
        method="POST", url=server.origin, headers=HEADERS, body="{}", key_variable="DEMO_API_KEY"
    )

    by_curl, by_httpx = await run_both(request, {})

    assert "DEMO_API_KEY" in by_curl[1] and "DEMO_API_KEY" in by_httpx[1]
    assert server.received == []


@pytest.mark.parametrize(
    "changes", [{"url": "https://api.example/v1?key=•••"}, {"body": b"\xff{}"}, {"body": b"{\0}"}], ids=str
)
def test_a_request_that_code_would_not_repeat_is_no_code(changes: dict[str, object]) -> None:
    whole = {"method": "POST", "url": "https://api.example/v1", "headers": HEADERS, "body": b"{}"}

    assert repeatable_request(**whole) is not None  # type: ignore[arg-type]
    assert repeatable_request(**{**whole, **changes}) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "variable"),
    [("openai_api_key", "OPENAI_API_KEY"), ("my-site.key", "MY_SITE_KEY"), ("9lives", "_9LIVES"), ("•", "SECRET")],
)
def test_a_variable_has_a_name_that_shells_take(name: str, variable: str) -> None:
    assert variable_name(name) == variable
