"""Times the pieces of one streamed answer and hands them on to whoever watches it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from llmcore.errors import ProviderError
from llmcore.messages import Delta
from llmcore.permits.base import Place
from llmcore.providers.json_text import mend_surrogates
from llmcore.trace import WireExchange


class Observer(Protocol):
    """Sees a call while it runs, for traces and the live view."""

    def delta(self, delta: Delta) -> None:
        """A piece of the answer that is being streamed."""

    def waiting(self, place: Place) -> None:
        """The call waits for a permit, and stands here now."""

    def waited(self, place: Place, waited_ms: float, *, attempt: int, granted: bool) -> None:
        """The attempt (from 1) has its permit, or was cancelled. `place` is where it began to wait."""

    def retry(self, attempt: int, error: ProviderError, wait_s: float) -> None:
        """The attempt (from 1) failed and there will be another one after `wait_s`."""

    def exchange(self, exchange: WireExchange) -> None:
        """What went over the wire in one attempt; only where capture is on."""


class AnswerWatch:
    """The times of one answer in milliseconds since the call began: the first piece, and how long thinking came."""

    def __init__(self, clock: Callable[[], float], started: float, observer: Observer | None) -> None:
        self.first_token_ms: float | None = None
        self.thinking_ms: float | None = None
        self._clock = clock
        self._started = started
        self._observer = observer
        self._thinking_since: float | None = None
        self._halves: dict[str, str] = {}

    def take(self, deltas: Iterable[Delta]) -> None:
        for delta in deltas:
            now = (self._clock() - self._started) * 1000
            if self.first_token_ms is None:
                self.first_token_ms = now
            if delta.kind != "thinking":
                self._end_thinking(now)
            elif self._thinking_since is None:
                self._thinking_since = now
            if self._observer is not None and (whole := self._whole(delta)):
                self._observer.delta(whole)

    def end(self) -> None:
        self._end_thinking((self._clock() - self._started) * 1000)

    def _end_thinking(self, now: float) -> None:
        if self._thinking_since is not None:
            self.thinking_ms = (self.thinking_ms or 0.0) + now - self._thinking_since
            self._thinking_since = None

    def _whole(self, delta: Delta) -> Delta | None:
        """The delta without half characters: a surrogate pair may be cut between two deltas."""
        text = self._halves.pop(delta.kind, "") + delta.text if self._halves else delta.text
        if text.isascii():
            return delta if text == delta.text else replace(delta, text=text)
        if "\ud800" <= text[-1] <= "\udbff":
            self._halves[delta.kind] = text[-1]
            text = text[:-1]
        return replace(delta, text=mend_surrogates(text)) if text else None
