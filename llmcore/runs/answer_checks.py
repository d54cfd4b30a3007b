"""Holds a run's complete answer to the schema that it has to fit, and lets the model correct it."""

from __future__ import annotations

from dataclasses import asdict, replace

from llmcore.configuration import Route
from llmcore.messages import Message
from llmcore.runs import endings
from llmcore.runs.outcome import EndReason, Outcome
from llmcore.runs.recording import Recorder
from llmcore.runs.state import Progress
from llmcore.structured.expected import Expected, asked_of, repair_message
from llmcore.structured.validation import Check


class AnswerChecks:
    """The checks of one run's answers; there are none where nothing is expected of them."""

    def __init__(self, progress: Progress, recorder: Recorder) -> None:
        self._progress = progress
        self._recorder = recorder

    def held(self, outcome: Outcome, route: Route) -> Outcome | None:
        """How the answer ends the run that the model of `route` gave; `None` where the model is told what is wrong with
        it, and answers again. An answer that was cut off, filtered or empty is that, whatever it looks like."""
        progress = self._progress
        expected = progress.expected
        if expected is None or outcome.reason is not EndReason.COMPLETED:
            return outcome
        check = expected.check(outcome.answer)
        used = progress.repairs_used
        again = not check.valid and used < expected.repairs
        repair = repair_message(check.objections, check.count) if again else None
        native = asked_of(route, expected.schema).native
        record_check(
            self._recorder, expected, check, attempt=used + 1, native=native, repair=repair, round=progress.rounds_used
        )
        if check.valid:
            return replace(outcome, answer=check.text)
        if repair is None:
            return endings.invalid(expected, check, outcome.answer)
        progress.ask_again(repair)
        return None


def record_check(
    recorder: Recorder,
    expected: Expected,
    check: Check,
    *,
    attempt: int,
    native: bool,
    repair: Message | None,
    round: int,
) -> None:
    """Record how an answer was held to its schema; `repair` is what the model is told of it."""
    facts = {
        "attempt": attempt,
        "native": native,
        "schema": expected.schema.id,
        "schema_sha256": expected.schema.sha256,
        **check.facts(),
    }
    recorder.validated(facts, [asdict(objection) for objection in check.objections], repair, round=round)
