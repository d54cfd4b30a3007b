"""No secret reaches a log, whatever handler and formatter it has."""

from __future__ import annotations

import io
import logging
import pickle
from collections.abc import Iterator

import pytest

from llmcore.redaction import MASK, Redactor
from llmcore.redaction.logs import RedactedRecord, redact_log

KEY = "abc123DEF456ghi789"


@pytest.fixture
def log() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """A logger as any library has one, with a handler as any site may set one up."""
    before, redactor = logging.getLogRecordFactory(), RedactedRecord.redactor
    redact_log(Redactor([KEY]))
    logger, stream = logging.Logger("some.library"), io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(handler)
    yield logger, stream
    logging.setLogRecordFactory(before)
    RedactedRecord.redactor = redactor


def test_messages_and_their_arguments_are_redacted(log: tuple[logging.Logger, io.StringIO]) -> None:  # R1
    logger, stream = log
    logger.info("sent %s with %s", KEY, {"authorization": "Bearer xyz123"})
    assert stream.getvalue() == f"INFO sent {MASK} with {{'authorization': '{MASK}'}}\n"


def test_the_whole_chain_of_a_logged_exception_is_redacted(log: tuple[logging.Logger, io.StringIO]) -> None:  # R1
    logger, stream = log
    try:
        try:
            raise ConnectionError(f"refused for {KEY}")
        except ConnectionError as error:
            raise ValueError("api_key=sk-abcdef1234567890") from error
    except ValueError:
        logger.exception("it failed")
    written = stream.getvalue()
    assert "ConnectionError" in written and "ValueError" in written
    assert KEY not in written and "abcdef1234567890" not in written


def test_a_record_can_still_go_to_another_process(log: tuple[logging.Logger, io.StringIO]) -> None:
    record = logging.getLogRecordFactory()("a", logging.INFO, __file__, 1, "key %s", (KEY,), None)
    assert pickle.loads(pickle.dumps(record)).getMessage() == f"key {MASK}"


def test_a_record_without_an_exception_has_no_traceback(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = log
    logger.error("it failed", exc_info=True)
    assert "Traceback" not in stream.getvalue()


def test_the_site_makes_such_records_from_its_start() -> None:  # R1
    assert logging.getLogRecordFactory() is RedactedRecord
