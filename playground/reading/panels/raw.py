"""Raw response: the captured exchanges, one for each attempt, secrets masked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from playground.models import WireExchangeRecord
from playground.reading.boxes import Box, any_box
from playground.reading.panels.base import Panel, Query, Tab
from playground.reading.step_record import StepRecord

MAX_ARRIVALS = 200
MASK = "•••"


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrival:
    """A piece of the response: when it came, and how large it was."""

    ms: float
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """A header line; secret values are masked before they are stored."""

    name: str
    value: str

    @property
    def masked(self) -> bool:
        return MASK in self.value


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One captured HTTP request and response."""

    record: WireExchangeRecord
    request_headers: list[Header]
    response_headers: list[Header]
    box: Box
    arrivals: list[Arrival]
    arrivals_left: int

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
    def first_ms(self) -> float | None:
        return self.record.chunk_times[0][0] if self.record.chunk_times else None

    @property
    def last_ms(self) -> float | None:
        return self.record.chunk_times[-1][0] if self.record.chunk_times else None

    @property
    def pieces(self) -> int:
        return len(self.record.chunk_times)


def tab(record: StepRecord) -> Tab:
    return Tab(slug="raw", title="Raw response", read=read)


def read(record: StepRecord, query: Query) -> Panel:
    attempts = [_attempt(exchange) for exchange in record.exchanges]
    context = {
        "attempts": attempts,
        "capture_raw": record.run.capture_raw,
        "may_see_raw": record.may_see_raw,
        "running": record.line.running,
    }
    return Panel(template="raw", context=context, boxes=tuple(attempt.box for attempt in attempts))


def _attempt(exchange: WireExchangeRecord) -> Attempt:
    body = bytes(exchange.response_body).decode("utf-8", "replace")
    arrivals = [Arrival(ms=ms, size=size) for ms, size in exchange.chunk_times[:MAX_ARRIVALS]]
    return Attempt(
        record=exchange,
        request_headers=_headers(exchange.request_headers),
        response_headers=_headers(exchange.response_headers),
        box=any_box(f"response-{exchange.attempt}", "Response body", body),
        arrivals=arrivals,
        arrivals_left=len(exchange.chunk_times) - len(arrivals),
    )


def _headers(headers: Mapping[str, str]) -> list[Header]:
    return [Header(name=name, value=str(value)) for name, value in headers.items()]
