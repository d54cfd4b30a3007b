"""Records what happens during a provider call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from llmcore.errors import ProviderError
from llmcore.messages import JSON, Delta
from llmcore.permits.base import Place
from llmcore.trace import RunTrace, StepKind, SummaryInWork, WireExchange


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitObserver:
    """Records how a call waits for its permits. What went over the wire it only keeps, until there is a step for it."""

    trace: RunTrace
    round: int
    provider: str
    exchanges: list[WireExchange] = field(default_factory=list)

    def delta(self, delta: Delta) -> None: ...

    def waiting(self, place: Place) -> None:
        self.trace.waiting(self.round, {"provider": self.provider, **place.to_json()})

    def waited(self, place: Place, waited_ms: float, *, attempt: int, granted: bool) -> None:
        data = {"provider": self.provider, "attempt": attempt, **place.to_json(), "granted": granted}
        now = self.trace.now_ms()
        self.trace.record(StepKind.PERMIT, round=self.round, data=data, started_ms=now - waited_ms, ended_ms=now)

    def retry(self, attempt: int, error: ProviderError, wait_s: float) -> None: ...

    def exchange(self, exchange: WireExchange) -> None:
        self.exchanges.append(exchange)


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryObserver(WaitObserver):
    """Tells of a `summary` while it is being written, or waits for that."""

    summary: SummaryInWork

    def begun(self) -> None:
        self.trace.waiting(self.round, {"summary": {**self.summary}})

    def over(self) -> None:
        self.trace.waiting(self.round, {})

    def waiting(self, place: Place) -> None:
        self.trace.waiting(self.round, {"provider": self.provider, **place.to_json(), "summary": {**self.summary}})

    def waited(self, place: Place, waited_ms: float, *, attempt: int, granted: bool) -> None:
        WaitObserver.waited(self, place, waited_ms, attempt=attempt, granted=granted)
        if granted:
            self.begun()


@dataclass(frozen=True, kw_only=True, slots=True)
class CallObserver(WaitObserver):
    """Records all that happens during the call of a round, whose request is the step `sequence`."""

    sequence: int

    def delta(self, delta: Delta) -> None:
        self.trace.delta(self.round, delta)

    def retry(self, attempt: int, error: ProviderError, wait_s: float) -> None:
        data: Mapping[str, JSON] = {"attempt": attempt, "error": error.to_json(), "wait_s": wait_s}
        self.trace.record(StepKind.RETRY, round=self.round, data=data)

    def exchange(self, exchange: WireExchange) -> None:
        self.trace.exchange(self.sequence, exchange)
