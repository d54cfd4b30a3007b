"""Keeps secrets out of the log, whoever writes to it and whichever handlers it has."""

from __future__ import annotations

import logging
import threading
from typing import Any, ClassVar

from llmcore.redaction.redactor import Redactor

_learning = threading.Lock()


class RedactedRecord(logging.LogRecord):
    """A log record whose message and traceback are redacted before any handler sees them."""

    redactor: ClassVar[Redactor] = Redactor()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        error = self.exc_info[1] if self.exc_info else None
        if error is not None:
            # Formatters take this text, where it is set, instead of rendering the exception themselves.
            self.exc_text = self.redactor.render_exception(error).rstrip("\n")

    def getMessage(self) -> str:
        return self.redactor.patterns(super().getMessage())


def redact_log(redactor: Redactor) -> None:
    """From now on all loggers of this process make redacted records."""
    RedactedRecord.redactor = redactor
    logging.setLogRecordFactory(RedactedRecord)


def keep_out_of_log(secret: str) -> None:
    """Records that are made from now on don't have this secret either, which was not known at the start."""
    with _learning:
        RedactedRecord.redactor = RedactedRecord.redactor.knowing(secret)
