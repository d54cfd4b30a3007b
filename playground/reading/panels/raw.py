"""Raw response: the captured exchanges, one for each attempt, secrets masked."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from itertools import pairwise

from playground.models import WireExchangeRecord
from playground.reading.boxes import Box, any_box
from playground.reading.panels.base import Panel, Query, Tab
from playground.reading.step_record import StepRecord

ARRIVALS_AT_ONCE = 200
ARRIVAL_CHARS = 300
MASK = "•••"
# The part of the panel that is the arrivals of one attempt, from the query's offset on.
ARRIVALS = "arrivals-"


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrival:
    """A piece of the response: when it came, how long after the one before it, and its beginning."""

    ms: float
    after_ms: float
    size: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """A header line; secret values are masked before they are stored."""

    name: str
    value: str

    @property
    def masked(self) -> bool:
        return MASK in self.value


class Attempt:
    """One captured HTTP request and response."""

    def __init__(self, record: WireExchangeRecord) -> None:
        self.record = record
        self.request_headers = headers_of(record.request_headers)
        self.response_headers = headers_of(record.response_headers)

    @property
    def ok(self) -> bool:
        return self.record.status is not None and self.record.status < 400

    @property
    def phrase(self) -> str:
        if self.record.status is None:
            return "no response"
        known = {status.value: status.phrase for status in HTTPStatus}
        return f"{self.record.status} {known.get(self.record.status, '')}".strip()

    @property
    def body_bytes(self) -> int:
        return len(self.record.request_body)

    @cached_property
    def body_sha256(self) -> str:
        return hashlib.sha256(bytes(self.record.request_body)).hexdigest()

    @cached_property
    def box(self) -> Box:
        body = bytes(self.record.response_body).decode("utf-8", "replace")
        return any_box(f"response-{self.record.attempt}", "Response body", body)

    @property
    def first_ms(self) -> float | None:
        return self.record.chunk_times[0][0] if self.record.chunk_times else None

    @property
    def last_ms(self) -> float | None:
        return self.record.chunk_times[-1][0] if self.record.chunk_times else None

    @property
    def pieces(self) -> int:
        return len(self.record.chunk_times)

    def arrivals(self, offset: int = 0) -> list[Arrival]:
        """So many of the response's pieces as are shown at once."""
        times = self.record.chunk_times
        body, start = bytes(self.record.response_body), sum(size for _, size in times[:offset])
        before = times[offset - 1][0] if 0 < offset <= len(times) else 0.0
        shown = times[offset : offset + ARRIVALS_AT_ONCE]
        ends = [before, *(ms for ms, _ in shown)]
        arrivals = []
        for (ms, size), (last, now) in zip(shown, pairwise(ends), strict=True):
            arrivals.append(Arrival(ms=ms, after_ms=now - last, size=size, text=text_of(body[start : start + size])))
            start += size
        return arrivals


def tab(record: StepRecord) -> Tab:
    return Tab(slug="raw", title="Raw response", read=read)


def read(record: StepRecord, query: Query) -> Panel:
    attempts = [Attempt(exchange) for exchange in record.exchanges]
    if query.part.startswith(ARRIVALS):
        return _more_arrivals(attempts, query)
    context = {
        "attempts": [{"attempt": attempt, **_arrivals(attempt, 0)} for attempt in attempts],
        "capture_raw": record.run.capture_raw,
        "may_see_raw": record.may_see_raw,
        "running": record.line.running,
    }
    return Panel(template="raw", context=context, boxes=tuple(attempt.box for attempt in attempts))


def _more_arrivals(attempts: list[Attempt], query: Query) -> Panel:
    attempt = next((a for a in attempts if f"{ARRIVALS}{a.record.attempt}" == query.part), None)
    if attempt is None:
        raise LookupError(f"no part {query.part}")
    return Panel(template="arrivals", context={"attempt": attempt, **_arrivals(attempt, query.offset)})


def _arrivals(attempt: Attempt, offset: int) -> dict[str, object]:
    arrivals = attempt.arrivals(offset)
    next_offset = offset + len(arrivals)
    return {"arrivals": arrivals, "next": next_offset, "rest": max(attempt.pieces - next_offset, 0)}


def headers_of(headers: Mapping[str, str]) -> list[Header]:
    return [Header(name=name, value=str(value)) for name, value in headers.items()]


def text_of(piece: bytes) -> str:
    """A piece as it is shown; a character that two pieces share is whole in neither."""
    text = piece[: 4 * ARRIVAL_CHARS].decode("utf-8", "replace").strip("\r\n")
    return text if len(text) <= ARRIVAL_CHARS else f"{text[: ARRIVAL_CHARS - 1]}…"
