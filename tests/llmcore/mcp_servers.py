"""A real MCP server, written with the official SDK: over HTTP in a thread, or as a program over its pipes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CallToolResult, EmbeddedResource, ImageContent, TextContent, TextResourceContents, ToolAnnotations

from llmcore.providers.scripted.server import listen

READS = ToolAnnotations(read_only_hint=True)


@dataclass
class Shop:
    """What the server knows of its calls. `release` lets the tool `wait` go on; `waiting` says that it is called."""

    calls: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    sessions_ended: int = 0
    release: threading.Event = field(default_factory=threading.Event)
    waiting: threading.Event = field(default_factory=threading.Event)
    url: str = ""


def shop_server(shop: Shop) -> MCPServer:
    """The server with its tools, each for one thing that results can be."""
    server = MCPServer("shop", version="1.0")

    @server.tool(annotations=READS)
    def find_order(number: str) -> str:
        """Find an order by its number."""
        shop.calls.append(f"find_order {number}")
        return f"Order {number} was shipped."

    @server.tool()
    def refund(number: str, cents: int) -> dict[str, Any]:
        """Pay an order back."""
        shop.calls.append(f"refund {number}")
        return {"order": number, "cents": cents}

    @server.tool(annotations=READS)
    def fail(reason: str) -> CallToolResult:
        """Fail for a reason."""
        return CallToolResult(content=[TextContent(text=f"It failed: {reason}")], is_error=True)

    @server.tool(annotations=READS, structured_output=False)
    def picture() -> list[Any]:
        """A picture, a text and a file."""
        return [
            ImageContent(data="iVBORw0KGgo=", mime_type="image/png"),
            TextContent(text="A red square."),
            EmbeddedResource(
                resource=TextResourceContents(uri="shop://notes/1", text="Notes.", mime_type="text/plain")
            ),
        ]

    @server.tool(annotations=READS)
    def much(size: int) -> str:
        """A text of a size."""
        return "x" * size

    @server.tool(annotations=READS)
    def wait() -> str:
        """Wait until somebody lets it go on."""
        shop.waiting.set()
        shop.release.wait(30)
        return "Done."

    @server.tool(annotations=READS)
    def key(context: Context) -> str:
        """The key that the request had, and this program's environment."""
        headers = context.headers or {}
        return f"{headers.get('authorization', 'no key')} {sorted(os.environ.items())}"

    return server


@contextmanager
def serve_shop(*, older: bool = False, **options: Any) -> Iterator[Shop]:
    """The server at `Shop.url`, an `older` one with sessions of its own. `options` are for the SDK's application."""
    shop = Shop()
    app = shop_server(shop).streamable_http_app(**options)
    with serve_app(noting(shop, app, older=older), lifespan="on") as base:
        shop.url = f"{base}/mcp"
        try:
            yield shop
        finally:
            shop.release.set()


def noting(shop: Shop, app: Any, *, older: bool) -> Any:
    async def noted(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            shop.headers.append(headers)
            shop.sessions_ended += scope["method"] == "DELETE"
            if older and headers.get("mcp-method") == "server/discover":
                # The first request of a newer client, to a server that has never heard of it.
                await send({"type": "http.response.start", "status": 404, "headers": []})
                await send({"type": "http.response.body"})
                return
        await app(scope, receive, send)

    return noted


@contextmanager
def serve_app(app: Any, *, lifespan: Any = "off") -> Iterator[str]:
    """An ASGI application on a port of its own; yields its address without a path."""
    with listen("127.0.0.1", 0) as listener:
        config = uvicorn.Config(
            app, lifespan=lifespan, log_config=None, log_level="critical", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="mcp server", daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive(), "the MCP server did not start"
            time.sleep(0.002)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


# Such a server as a program: `python -m tests.llmcore.mcp_servers`.
PROGRAM = (sys.executable, "-m", "tests.llmcore.mcp_servers")
ROOT = str(Path(__file__).resolve().parents[2])


def main() -> None:
    """Over the pipes. With a file named, it starts a program that would stay behind and writes its number there."""
    if len(sys.argv) > 1:
        left = subprocess.Popen(["sleep", "600"], start_new_session=True)
        Path(sys.argv[1]).write_text(f"{os.getpid()} {left.pid}")
    shop_server(Shop()).run("stdio")


if __name__ == "__main__":
    main()
