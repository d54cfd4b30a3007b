"""Tools of real MCP servers in the loop: called over one session, bounded, ended, and silent about keys."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llmcore.configuration import Secret
from llmcore.errors import SecretUnavailable
from llmcore.providers.scripted import Turn
from llmcore.runs.outcome import EndReason
from llmcore.tools.base import ToolContext
from llmcore.tools.execute import ToolRunner
from llmcore.tools.mcp.listing import Definition, Listing
from llmcore.tools.mcp.offered import tool_of
from llmcore.tools.mcp.server import MCPCommand, MCPServer
from llmcore.tools.mcp.sessions import ServerFailed, Session, fetch_listing
from llmcore.tools.results import FailureKind, ToolResult
from tests.llmcore.conftest import LoopBench, call
from tests.llmcore.mcp_servers import PROGRAM, ROOT, Shop, serve_app, serve_shop
from tests.llmcore.permit_stores import until

KEY = "sk-mcp-0123456789abcdef"


@pytest.fixture(scope="module")
def served() -> Iterator[Shop]:
    with serve_shop() as shop:
        yield shop


@pytest.fixture
def shop(served: Shop) -> Shop:
    served.calls.clear()
    served.headers.clear()
    served.waiting.clear()
    served.release.clear()
    return served


def server_at(url: str, **more: Any) -> MCPServer:
    return MCPServer(slug="shop", name="Shop", url=url, allow_private_hosts=True, believes_hints=True, **more)


def with_key(key: str = KEY) -> dict[str, Any]:
    return {"read_key": lambda: Secret(key)}


def program(*words: str, **environment: str) -> MCPServer:
    command = MCPCommand(argv=(*PROGRAM, *words), directory=ROOT, environment=tuple(environment.items()))
    return MCPServer(slug="shop", name="Shop", command=command, connect_timeout_s=30, believes_hints=True)


async def list_of(server: MCPServer) -> Listing:
    return await fetch_listing(server, timeout_s=30)


async def failure_of(server: MCPServer) -> str:
    with pytest.raises(ServerFailed) as caught:
        await list_of(server)
    return str(caught.value)


async def offer(bench: LoopBench, server: MCPServer) -> None:
    for definition in (await list_of(server)).definitions:
        bench.tools.register(tool_of(server, definition), place="tests")


async def result_of(server: MCPServer, name: str, **arguments: Any) -> ToolResult:
    """The result of one call outside a run."""
    return await ToolRunner(context=ToolContext()).run(tool_of(server, defined(name)), arguments)


def defined(name: str) -> Definition:
    """A tool of the server, as somebody has accepted it."""
    return Definition(name=name, description="Do it.", parameters={"type": "object"}, reads_only=True)


async def test_a_server_lists_its_tools_over_http(shop: Shop) -> None:
    listing = await list_of(server_at(shop.url))
    assert [definition.name for definition in listing.definitions][:2] == ["find_order", "refund"]
    assert listing.definitions[0].description == "Find an order by its number." and not listing.refused
    assert listing.definitions[0].reads_only and not listing.definitions[1].reads_only


@pytest.mark.parametrize("options", [{"json_response": True}, {"stateless_http": True, "json_response": True}])
async def test_a_server_may_answer_in_either_way(options: dict[str, bool]) -> None:
    with serve_shop(**options) as shop:
        assert (await result_of(server_at(shop.url), "find_order", number="A-1")).text == "Order A-1 was shipped."


async def test_a_run_calls_the_tools_of_a_server_over_one_session(bench: LoopBench, shop: Shop) -> None:
    await offer(bench, server_at(shop.url, **with_key()))
    shop.headers.clear()
    bench.script(
        Turn(tool_calls=(call("shop__find_order", {"number": "A-1"}), call("shop__find_order", {"number": "A-2"}))),
        Turn(tool_calls=(call("shop__find_order", {"number": "A-3"}),)),
        Turn(text="All shipped."),
    )
    end = await bench.run()
    assert end.outcome is not None and end.outcome.reason is EndReason.COMPLETED
    assert sorted(shop.calls) == ["find_order A-1", "find_order A-2", "find_order A-3"]
    methods = [headers.get("mcp-method") for headers in shop.headers]
    assert methods.count("server/discover") == 1 and methods.count("tools/call") == 3
    assert {headers["authorization"] for headers in shop.headers} == {f"Bearer {KEY}"}


async def test_a_server_of_an_older_protocol_is_told_when_the_run_is_over(bench: LoopBench) -> None:
    with serve_shop(older=True) as shop:
        await offer(bench, server_at(shop.url))
        # A server may hear of the end a little later than its client goes on.
        async with asyncio.timeout(60):
            await until(lambda: shop.sessions_ended)
        ended = shop.sessions_ended
        bench.script(
            Turn(tool_calls=(call("shop__find_order", {"number": "A-1"}), call("shop__find_order", {"number": "A-2"}))),
            Turn(text="Both shipped."),
        )
        await bench.run()
        assert bench.results_sent() == ["Order A-1 was shipped.", "Order A-2 was shipped."]
        async with asyncio.timeout(60):
            await until(lambda: shop.sessions_ended > ended)
        assert shop.sessions_ended - ended == 1


async def test_a_run_that_calls_no_tool_connects_to_nothing(bench: LoopBench, shop: Shop) -> None:
    await offer(bench, server_at(shop.url))
    shop.headers.clear()
    bench.script(Turn(text="Nothing to look up."))
    await bench.run()
    bench.loop().dry_run(bench.state())
    assert not shop.headers


async def test_what_a_server_calls_an_error_is_one_for_the_model(shop: Shop) -> None:
    result = await result_of(server_at(shop.url), "fail", reason="closed")
    assert result.failure is FailureKind.TOOL_ERROR and result.text == "It failed: closed"


async def test_parts_that_are_no_text_are_named(shop: Shop) -> None:
    result = await result_of(server_at(shop.url), "picture")
    assert result.text.splitlines()[::2] == [
        "[image, image/png, about 9 bytes: it can't be shown as text.]",
        "A red square.",
        "shop://notes/1:",
    ]


async def test_a_long_result_is_cut_as_any_other(bench: LoopBench, shop: Shop) -> None:
    await offer(bench, server_at(shop.url))
    bench.script(Turn(tool_calls=(call("shop__much", {"size": 500_000}),)), Turn(text="Long."))
    await bench.run(bench.state(max_tool_result_bytes=1_000))
    (text,) = bench.results_sent()
    assert len(text.encode()) <= 1_000 and "[The result was truncated here: it has 500000 bytes" in text


async def test_an_answer_beyond_all_bounds_is_not_read(shop: Shop) -> None:
    result = await result_of(server_at(shop.url), "much", size=9_000_000)
    assert result.failure is FailureKind.TOOL_ERROR and "can't be used" in result.text and "8 MiB" in result.text


async def test_a_call_beyond_its_deadline_is_given_up(shop: Shop) -> None:
    result = await result_of(server_at(shop.url, call_timeout_s=0.3), "wait")
    assert result.failure is FailureKind.TIMEOUT and "within 0.3 seconds" in result.text
    shop.release.set()


@pytest.mark.parametrize("older", [False, True])
async def test_a_cancelled_run_ends_within_a_second(bench: LoopBench, older: bool) -> None:
    with serve_shop(older=older) as shop:
        await offer(bench, server_at(shop.url))
        bench.script(Turn(tool_calls=(call("shop__wait"),)))
        cancel = asyncio.Event()
        running = asyncio.create_task(bench.run(cancel=cancel))
        assert await asyncio.to_thread(shop.waiting.wait, 20)
        cancel.set()
        started = time.monotonic()
        end = await running
        took = time.monotonic() - started
    assert end.outcome is not None and end.outcome.reason is EndReason.CANCELLED
    # D2. The tool has 0.5 s to clean up, and its session as long to close; beside other tests a machine is slow. Who
    # waited for the tool would have waited half a minute.
    assert took < 15


async def test_a_server_that_is_down_is_a_clear_error_for_the_model(bench: LoopBench) -> None:
    with serve_shop() as shop:
        await offer(bench, server_at(shop.url))
    bench.script(Turn(tool_calls=(call("shop__find_order", {"number": "A-1"}),)), Turn(text="It is down."))
    end = await bench.run()
    assert end.outcome is not None and end.outcome.reason is EndReason.COMPLETED
    (text,) = bench.results_sent()
    assert "The MCP server “Shop” can't be used: there is no connection to it. Look whether it runs" in text


async def test_a_write_that_broke_off_may_have_happened() -> None:
    with serve_shop() as shop:
        server = replace(server_at(shop.url), believes_hints=False)
        result = await result_of(server, "much", size=9_000_000)
    assert result.effect_unknown and "Whether the call had an effect is unknown." in result.text


async def test_the_key_is_in_no_error_and_no_result(shop: Shop) -> None:  # R1
    result = await result_of(server_at(shop.url, **with_key()), "key")
    assert KEY not in result.text and result.text.startswith("Bearer •••")
    with serve_app(refusing) as base:
        assert KEY not in (failure := await failure_of(server_at(f"{base}/mcp", **with_key())))
        assert "it refuses the key (HTTP 401). Enter one that has the rights" in failure
        assert "it wants a key (HTTP 401)" in await failure_of(server_at(f"{base}/mcp"))


async def refusing(scope: Any, receive: Any, send: Any) -> None:
    """A server that says back what it got."""
    headers = dict(scope["headers"])
    await answer(send, 401, {"error": headers.get(b"authorization", b"").decode()})


async def answer(send: Any, status: int, value: Any, *headers: tuple[bytes, bytes]) -> None:
    every = [(b"content-type", b"application/json"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": every})
    await send({"type": "http.response.body", "body": json.dumps(value).encode()})


async def test_a_key_that_can_not_be_had_is_told_and_nothing_is_sent(shop: Shop) -> None:
    def lost() -> Secret:
        raise SecretUnavailable("The key of “Shop” can't be decrypted.")

    assert await failure_of(server_at(shop.url, read_key=lost)) == "The key of “Shop” can't be decrypted."
    assert not shop.headers


@pytest.mark.parametrize("status", [302, 307])
async def test_no_redirect_is_followed_and_no_key_goes_there(shop: Shop, status: int) -> None:  # W6
    async def redirecting(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, status, {}, (b"location", shop.url.encode()))

    async def to_itself(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, status, {}, (b"location", b"/mcp/"))

    for app in (redirecting, to_itself):
        with serve_app(app) as base:
            failure = await failure_of(server_at(f"{base}/mcp", **with_key()))
        assert "a redirect, which is not followed. Enter the address that it leads to." in failure
    assert not shop.headers


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://169.254.169.254/mcp", "never called"),
        ("http://[fd00:ec2::254]/mcp", "never called"),
        ("http://0.0.0.0/mcp", "never called"),
    ],
)
async def test_metadata_addresses_are_refused(url: str, words: str) -> None:  # W6
    assert words in await failure_of(server_at(url, **with_key()))


async def test_a_private_address_needs_the_tick(shop: Shop) -> None:  # W6
    failure = await failure_of(replace(server_at(shop.url), allow_private_hosts=False))
    assert "Plain http is for local servers only" in failure and not shop.headers


async def test_a_server_that_takes_the_connection_and_says_nothing_is_given_up() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        server = server_at(f"http://127.0.0.1:{silent.getsockname()[1]}/mcp", connect_timeout_s=0.6)
        started = time.monotonic()
        failure = await failure_of(server)
    assert "can't be used" in failure and time.monotonic() - started < 30


@pytest.mark.parametrize("body", [[], {"jsonrpc": "2.0", "id": 1, "result": {"tools": "none"}}, {"ok": True}, "x" * 99])
async def test_what_is_no_mcp_is_told(body: Any) -> None:
    async def other(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, 200, body)

    with serve_app(other) as base:
        failure = await failure_of(server_at(f"{base}/mcp", connect_timeout_s=1.0))
    assert "The MCP server “Shop” can't be used" in failure


async def test_a_program_is_called_with_nothing_of_this_environment() -> None:
    os.environ["MCP_TEST_SECRET"] = "sk-of-this-process"
    try:
        result = await result_of(program(PATH=os.defpath, SHOP_TOKEN="tok-0123456789"), "key")
    finally:
        del os.environ["MCP_TEST_SECRET"]
    assert "sk-of-this-process" not in result.text and "MCP_TEST_SECRET" not in result.text
    # Of its own it says nothing either.
    assert "('SHOP_TOKEN', '•••')" in result.text


async def test_a_program_ends_with_the_run_and_all_that_it_started(bench: LoopBench, tmp_path: Path) -> None:
    numbers = tmp_path / "numbers"
    bench.tools.register(tool_of(program(str(numbers), PATH=os.defpath), defined("find_order")), place="tests")
    bench.script(Turn(tool_calls=(call("shop__find_order", {"number": "A-1"}),)), Turn(text="Shipped."))
    await bench.run()
    assert bench.results_sent() == ["Order A-1 was shipped."]
    for number in map(int, numbers.read_text().split()):
        await gone(number)


async def gone(pid: int) -> None:
    """Return when the process has ended; it may have to be reaped yet."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X"):
                return
        except FileNotFoundError:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"the process {pid} goes on")


async def test_a_program_that_is_not_there_is_told() -> None:
    command = MCPCommand(argv=("/nowhere/server",), directory=ROOT)
    failure = await failure_of(MCPServer(slug="shop", name="Shop", command=command))
    assert "its command has ended" in failure and "LLM_MCP_COMMANDS" in failure


async def test_a_program_that_speaks_no_mcp_is_given_up() -> None:
    command = MCPCommand(argv=("sleep", "60"), directory=ROOT, environment=(("PATH", os.defpath),))
    failure = await failure_of(MCPServer(slug="shop", name="Shop", command=command, connect_timeout_s=1.0))
    assert "gave no session within 1 seconds" in failure


# It writes its number into a file and then a line without end.
ENDLESS = """
import os, pathlib, sys
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
while True:
    os.write(1, b"x" * 65536)
"""


async def test_a_program_that_writes_a_line_without_end_is_ended(tmp_path: Path) -> None:
    number = tmp_path / "number"
    command = MCPCommand(argv=(sys.executable, "-c", ENDLESS, str(number)), directory=ROOT)
    failure = await failure_of(MCPServer(slug="shop", name="Shop", command=command, connect_timeout_s=30))
    assert "wrote a line of more than 8 MiB and was ended" in failure and "a line of its own" in failure
    await gone(int(number.read_text()))


async def test_a_program_is_ended_before_the_session_where_its_answer_is_beyond_all_bounds(tmp_path: Path) -> None:
    numbers = tmp_path / "numbers"
    session = Session(program(str(numbers), PATH=os.defpath))
    try:
        largest = await session.call("much", {"size": 3_000_000}, reads_only=True)
        assert largest.text.startswith("xxx")
        with pytest.raises(ServerFailed, match="Ask it for less at once"):
            await session.call("much", {"size": 9_000_000}, reads_only=True)
        for number in map(int, numbers.read_text().split()):
            await gone(number)
        # What was wrong stays told, whatever is asked of the broken session.
        told = await session.call("much", {"size": 1}, reads_only=False)
        assert "more than 8 MiB" in told.text and told.effect_unknown
    finally:
        await session.close()


def test_neither_the_loop_nor_the_tools_import_the_sdk() -> None:
    code = (
        "import sys, llmcore.runs.loop, llmcore.tools.mcp.offered; "
        "print(sorted({'mcp', 'mcp_types', 'httpx2', 'pydantic', 'starlette'} & set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
