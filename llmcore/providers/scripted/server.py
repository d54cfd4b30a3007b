"""Serves the scripted model over a real socket, beside the code that talks to it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def serve(app: Any, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Run the ASGI application `app` in a thread; yields its base URL, such as `http://127.0.0.1:41234/v1`.

    A connection that is still open at the end is closed after a second.
    """
    with listen(host, port) as listener:
        server = server_for(app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="scripted model", daemon=True)
        thread.start()
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("The server of the scripted model did not start.")
            time.sleep(0.002)
        try:
            yield base_url(listener)
        finally:
            server.should_exit = True
            thread.join()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; OSError where the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches Nagle's algorithm off, which holds pieces of an answer back for 40 ms, only where the protocol is
    # named.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def base_url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"


def server_for(app: Any) -> Any:
    """A uvicorn server that prints nothing, to be run on a listening socket."""
    # Only who serves needs uvicorn.
    import uvicorn

    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        # A connection that breaks off is what tests ask for; it needs no traceback.
        log_level="critical",
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)
