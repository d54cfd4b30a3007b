"""The queue of files between processes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from celery import current_app
from kombu import Connection

from tests.playground.driven import wait_for


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Connection]:
    """A connection as this site's workers make it, to a folder of its own. Within a process kombu remembers queues by
    their names alone, so each test needs other names."""
    (tmp_path / "control").mkdir()
    options = {
        **current_app.conf.broker_transport_options,
        "data_folder_in": str(tmp_path),
        "data_folder_out": str(tmp_path),
        "control_folder": str(tmp_path / "control"),
        "polling_interval": 0.0001,
    }
    with Connection("filesystem://", transport="config.file_queue:Transport", transport_options=options) as connection:
        yield connection


def test_a_site_without_a_broker_uses_it() -> None:
    assert current_app.connection().transport_cls == "config.file_queue:Transport"


def test_messages_come_out_whole_and_in_order(queue: Connection) -> None:
    simple = queue.SimpleQueue("runs")
    for number in range(20):
        simple.put({"number": number})
    taken = [simple.get(timeout=5) for _ in range(20)]
    assert [message.payload["number"] for message in taken] == list(range(20))
    simple.close()


def test_a_message_that_is_being_written_is_never_read_half(queue: Connection) -> None:
    """Readers that look all the time die of a message that is there before its content is."""
    count = 300
    taken: list[int] = []
    failures: list[BaseException] = []

    def read() -> None:
        try:
            with queue.clone() as connection:
                simple = connection.SimpleQueue("long")
                while len(taken) < count and not failures:
                    with suppress(simple.Empty):
                        message = simple.get(timeout=0.1)
                        taken.append(message.payload["number"])
                        message.ack()
        except BaseException as error:
            failures.append(error)

    # Declared before the readers do it: of two threads that declare the same queue, the second takes it for there while
    # the first still writes its binding, and what is sent in between goes nowhere.
    simple = queue.SimpleQueue("long")
    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(count):
        simple.put({"number": number, "long": "x" * 20_000})
    wait_for(lambda: len(taken) >= count or failures, "the messages", 60)
    for reader in readers:
        reader.join()
    assert not failures
    assert sorted(taken) == list(range(count))
