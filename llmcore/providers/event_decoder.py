"""Assembles an answer from server-sent events, for all wire formats that stream so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from llmcore.errors import ErrorKind, ProviderError
from llmcore.messages import JSON, Delta, ModelResponse
from llmcore.providers.answer import Answer
from llmcore.providers.base import WireReply
from llmcore.providers.event_stream import DONE, EventReader, ServerEvent
from llmcore.providers.failures import Report, broken, describe_body, error_in, failure, read_report
from llmcore.providers.json_text import decode_json
from llmcore.providers.lines import LineTooLong

# How the lines of events begin. What stands between events never begins so, so no body is looked through twice.
EVENT_BEGINNINGS = (b"data:", b"event:", b"id:", b":")


class EventTaker(Protocol):
    """Knows what the events of one wire format mean."""

    answer: Answer

    def take(self, body: dict[str, JSON]) -> Iterable[Delta]:
        """The decoded data of one event. At the format's own sign of the end `answer.ended` turns true."""

    def response(self, *, streamed: bool, cancelled: bool = False) -> ModelResponse:
        """What all the events made."""


class EventDecoder:
    """A stream decoder. `read_whole` reads a body that should have been a stream and is none."""

    def __init__(self, taker: EventTaker, read_whole: Callable[[WireReply], ModelResponse]) -> None:
        self.done = False
        self._taker = taker
        self._read_whole = read_whole
        self._events = EventReader()
        self._seen = False

    def feed(self, chunk: bytes) -> Iterable[Delta]:
        deltas: list[Delta] = []
        try:
            for event in self._events.feed(chunk):
                if self.done:
                    break
                deltas.extend(self._event(event))
        except LineTooLong:
            self._fail(broken(ErrorKind.MALFORMED_RESPONSE, "A line of the stream is too long."))
        return deltas

    def finish(self, *, cancelled: bool = False) -> ModelResponse:
        last = None if self.done else self._events.flush()
        if last is not None:
            self._event(last, at_end=True)
        stray = self._events.stray
        if stray and not cancelled and self._taker.answer.error is None:
            if not self._seen:
                # No event came, but something else did: a body that should not have been a stream.
                return self._read_whole(WireReply(status=200, headers={}, body=stray.encode("utf-8", "replace")))
            if report := reported(stray):
                self._fail(failure(report, 200))
        return self._taker.response(streamed=True, cancelled=cancelled)

    def _event(self, event: ServerEvent, at_end: bool = False) -> Iterable[Delta]:
        self._seen = True
        data = event.data.strip()
        if data == DONE:
            self.done = self._taker.answer.ended = True
            return ()
        try:
            body = decode_json(data)
        except ValueError:
            # At the very end it is a frame that the connection's end cut off.
            if not at_end:
                self._unreadable(event)
            return ()
        return self._frame(body, event)

    def _frame(self, body: JSON, event: ServerEvent) -> Iterable[Delta]:
        if event.is_error:
            self._fail(failure(read_report(body), 200))
            return ()
        # An error may stand beside a piece of the answer.
        report = error_in(body)
        if report is None and event.type == "error":
            report = read_report(body)
        deltas = list(self._taker.take(body)) if isinstance(body, dict) else []
        if report:
            self._fail(failure(report, 200))
        self.done = self.done or self._taker.answer.ended or self._taker.answer.error is not None
        return deltas

    def _unreadable(self, event: ServerEvent) -> None:
        if event.is_error or event.type == "error":
            self._fail(failure(read_report(event.data), 200))
        elif report := reported(self._events.stray):
            # It took the place of the event's end.
            self._fail(failure(report, 200))
        else:
            message = describe_body(event.data.encode("utf-8", "replace"), "", 200)
            self._fail(broken(ErrorKind.MALFORMED_RESPONSE, f"An event of the stream is not JSON. {message}"))

    def _fail(self, error: ProviderError) -> None:
        self._taker.answer.error = error
        self.done = True


def read_events(reply: WireReply, decoder: EventDecoder) -> ModelResponse | None:
    """The answer of a body that holds events although it says that it is something else; `None` where it holds none."""
    if not reply.body.lstrip(b"\r\n").startswith(EVENT_BEGINNINGS):
        return None
    decoder.feed(reply.body)
    return decoder.finish()


def reported(stray: str) -> Report | None:
    """The error in what came between the events: gateways that fail in the middle of a stream forget that it is one."""
    for text in (stray, *(line for line in stray.splitlines() if line.startswith("{"))):
        try:
            body = decode_json(text)
        except ValueError:
            continue
        if report := error_in(body):
            return report
    return None
