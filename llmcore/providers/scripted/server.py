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
    # Only who serves needs the server.
    import uvicorn

    # asyncio switches Nagle's algorithm off, which holds pieces of an answer back for 40 ms, only where the protocol is
    # named.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        config = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            # A connection that breaks off is what tests ask for; it needs no traceback.
            log_level="critical",
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="scripted model", daemon=True)
        thread.start()
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("The server of the scripted model did not start.")
            time.sleep(0.002)
        try:
            yield f"http://{host}:{listener.getsockname()[1]}/v1"
        finally:
            server.should_exit = True
            thread.join()
