"""What the web server does to connections."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import httpx
import uvicorn


async def application(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"Hello."})


def test_answers_are_not_held_back_where_several_processes_share_a_socket() -> None:
    # Such a socket is bound before the processes start, and the standard library's event loop takes no notice of what
    # kind it is: headers go out, and the body waits until the reader has acknowledged them.
    config = uvicorn.Config(application, host="127.0.0.1", port=0, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    shared = config.bind_socket()

    async def ask() -> list[int]:
        while not server.started:
            await asyncio.sleep(0.01)
        host, port = shared.getsockname()
        async with httpx.AsyncClient() as client:
            await client.get(f"http://{host}:{port}/")
            sockets = [connection.transport.get_extra_info("socket") for connection in server.server_state.connections]
            return [each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for each in sockets]

    async def serve_and_ask() -> list[int]:
        serving = asyncio.create_task(server.serve(sockets=[shared]))
        try:
            return await ask()
        finally:
            server.should_exit = True
            await serving

    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        assert runner.run(serve_and_ask()) == [1]
