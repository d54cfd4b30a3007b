"""Holds a run's complete answer to the schema that it has to fit, and lets the model correct it."""

from __future__ import annotations

from dataclasses import asdict, replace

from llmcore.configuration import Route
from llmcore.runs import endings
from llmcore.runs.outcome import EndReason, Outcome
from llmcore.runs.recording import Recorder
from llmcore.runs.state import Progress
from llmcore.structured.expected import asked_of, repair_message


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
        facts = {
            "attempt": used + 1,
            "native": asked_of(route, expected.schema).native,
            "schema": expected.schema.id,
            "schema_sha256": expected.schema.sha256,
            **check.facts(),
        }
        objections = [asdict(objection) for objection in check.objections]
        self._recorder.validated(facts, objections, repair, round=progress.rounds_used)
        if check.valid:
            return replace(outcome, answer=check.text)
        if repair is None:
            return endings.invalid(expected, check, outcome.answer)
        progress.ask_again(repair)
        return None
