"""The form of the log in production."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from config.logs import JSONFormatter


@pytest.fixture
def logged() -> Iterator[tuple[logging.Logger, Callable[[], dict[str, Any]]]]:
    """A logger, and what reads the one line that it wrote."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JSONFormatter())
    logger = logging.getLogger("tests.of.the.log")
    logger.addHandler(handler)

    def read() -> dict[str, Any]:
        (line,) = stream.getvalue().splitlines()
        return dict(json.loads(line))

    yield logger, read
    logger.removeHandler(handler)


Logged = tuple[logging.Logger, Callable[[], dict[str, Any]]]


def test_record_is_one_line_of_json(logged: Logged) -> None:
    logger, read = logged
    logger.warning("two\nlines of %s", "Grüße")
    entry = read()
    assert entry["message"] == "two\nlines of Grüße"
    assert (entry["level"], entry["logger"], entry["thread"]) == ("WARNING", "tests.of.the.log", "MainThread")
    assert entry["time"].endswith("+00:00") and "exception" not in entry


def test_exception_is_part_of_its_record_and_free_of_secrets(logged: Logged) -> None:
    logger, read = logged
    try:
        raise RuntimeError("Authorization: Bearer abcdefghijklmnop0123456789")
    except RuntimeError:
        logger.exception("failed with sk-proj-abcdefghijklmnopqrstuvwxyz0123456789")
    entry = read()
    assert entry["exception"].startswith("Traceback") and "RuntimeError" in entry["exception"]
    assert "abcdefghijklmnop" not in json.dumps(entry)
