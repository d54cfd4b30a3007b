"""The queue of an installation without a broker: kombu's file-system transport, with files that are never seen half."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from kombu.transport import filesystem

ATTEMPTS = 50
WAIT_S = 0.02


class Channel(filesystem.Channel):
    """Writes a message beside the queue and moves it in whole.

    kombu opens the file in the queue and writes then: a worker that looks in between reads an empty message and dies
    of it. The tables of which queue belongs to which exchange have the same gap; they are read again.
    """

    def _put(self, queue: str, payload: dict[str, Any], **kwargs: Any) -> None:  # type: ignore[override]  # Its own classes differ.
        folder = Path(self.data_folder_out)
        unseen = folder / f"{uuid4()}.tmp"
        unseen.write_text(json.dumps(payload))
        # Sorted by name, messages are in the order of their time.
        os.replace(unseen, folder / f"{time.time_ns()}_{uuid4()}.{queue}.msg")

    def get_table(self, exchange: str) -> list[Any]:
        return list(whole(partial(super().get_table, exchange)))

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        whole(partial(super()._queue_bind, exchange, routing_key, pattern, queue))


class Transport(filesystem.Transport):
    """The transport to be named in the broker's URL."""

    # Files have no host: without this, each connection warns that none is given.
    default_connection_params: dict[str, Any] = {}
    Channel = Channel


def whole(read: Callable[[], Any]) -> Any:
    """What `read` gives once the file it reads has been written to its end."""
    for _ in range(ATTEMPTS):
        try:
            return read()
        except ValueError:
            time.sleep(WAIT_S)
    return read()
