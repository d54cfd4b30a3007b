"""One step of a run with what belongs to it, loaded as far as its panels ask for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from llmcore.messages import Message
from llmcore.trace import StepKind
from playground.access import may_see_raw
from playground.models import Run, RunContent, RunPartial, RunStep, WireExchangeRecord
from playground.reading.lines import START, Line
from playground.reading.plan import Plan, read_plan
from playground.reading.step_rows import StepRow, load_rows
from playground.reading.steps import queued_line, read_lines

REQUESTS = (StepKind.REQUEST.value, StepKind.ASSEMBLED.value)


class StepRecord:
    """The line that step `sequence` belongs to, with the steps of its round around it.

    `user` is who reads it, `rows` are all steps of the run where they were just read. LookupError where there is no
    such step.
    """

    def __init__(self, run: Run, sequence: int, *, user: Any, rows: Sequence[StepRow] | None = None) -> None:
        self.run = run
        self.user = user
        self.rows: list[StepRow] = [] if sequence == START else _rows_around(run, sequence, rows)
        self.lines: list[Line] = [queued_line(run)] if sequence == START else read_lines(run, self.rows)
        found = next((line for line in self.lines if sequence in line.steps), None)
        if found is None:
            raise LookupError(f"run {run.pk} has no step {sequence}")
        self.line: Line = found
        self._contents: dict[str, Any] = {}

    @property
    def sequence(self) -> int:
        return self.line.sequence

    @property
    def kind(self) -> str:
        return "start" if self.sequence == START else self.first.kind

    @property
    def first(self) -> StepRow:
        """The step that the line is addressed by."""
        return self.row(self.sequence)

    @cached_property
    def end(self) -> StepRow | None:
        """The response or result, where one was recorded."""
        rows = [self.row(sequence) for sequence in self.line.steps if sequence != self.sequence]
        if ends := [row for row in rows if row.kind not in (StepKind.CONTEXT, StepKind.PERMIT)]:
            return ends[-1]
        return self.first if self.first.kind in (StepKind.RESPONSE, StepKind.TOOL_RESULT) else None

    @cached_property
    def context(self) -> StepRow | None:
        """Where the window went with the request, where that was recorded."""
        rows = (self.row(sequence) for sequence in self.line.steps)
        return next((row for row in rows if row.kind == StepKind.CONTEXT), None)

    @cached_property
    def may_see_raw(self) -> bool:
        return may_see_raw(self.user, self.run)

    @cached_property
    def plan(self) -> Plan:
        return read_plan(self.run)

    @cached_property
    def message(self) -> Message | None:
        """The answer of a model call, or the message that a tool's result became."""
        digest = self.end.data.get("message") if self.end else None
        value = self.content(digest) if digest else None
        return Message.from_json(value) if value else None

    @cached_property
    def exchanges(self) -> list[WireExchangeRecord]:
        if not self.may_see_raw:
            return []
        return list(WireExchangeRecord.objects.filter(run=self.run, sequence=self.sequence).order_by("attempt"))

    @cached_property
    def partial(self) -> RunPartial | None:
        """What is being streamed, provided it is this call's answer."""
        if not self.line.running or self.line.css != "call":
            return None
        return RunPartial.objects.filter(run=self.run, round=self.line.round).first()

    @cached_property
    def message_digests(self) -> tuple[list[str], int]:
        """The digests of all messages that the request sent, and how many of them the request before it sent too."""
        rows = RunStep.objects.filter(run=self.run, kind__in=REQUESTS, sequence__lte=self.sequence)
        digests: list[str] = []
        kept = 0
        for kept, added in rows.order_by("sequence").values_list("data__kept", "data__added"):
            digests = digests[:kept] + list(added or ())
        return digests, kept

    @property
    def moment(self) -> datetime:
        """When the line began, by the clock."""
        return (self.run.started_at or self.run.created_at) + timedelta(milliseconds=self.first.started_ms)

    def request_before(self) -> int | None:
        """The sequence of the request before this one; `None` where it is the first."""
        steps = RunStep.objects.filter(run=self.run, kind__in=REQUESTS, sequence__lt=self.sequence)
        return steps.order_by("-sequence").values_list("sequence", flat=True).first()

    def content(self, digest: str) -> Any:
        """A stored value; `None` where it is gone."""
        return self.contents([digest]).get(digest)

    def contents(self, digests: Iterable[str]) -> Mapping[str, Any]:
        missing = [digest for digest in digests if digest not in self._contents]
        if missing:
            rows = RunContent.objects.filter(run=self.run, digest__in=missing)
            self._contents.update(rows.values_list("digest", "value"))
        return self._contents

    def sizes(self, digests: Iterable[str]) -> Mapping[str, int]:
        """Bytes of stored values, without loading them."""
        rows = RunContent.objects.filter(run=self.run, digest__in=list(digests))
        return dict(rows.values_list("digest", "size"))

    def tool_lines(self) -> Mapping[str, Line]:
        """The tool runs of this round by call id."""
        return {line.call_id: line for line in self.lines if line.call_id}

    def url(self, **query: Any) -> str:
        """The address of the step's detail, or of a piece of it."""
        return self.url_of(self.sequence, **query)

    def url_of(self, sequence: int, **query: Any) -> str:
        """The same of another step of the run."""
        path = reverse("playground:run_step", args=[self.run.pk, sequence])
        return f"{path}?{urlencode(query)}" if query else path

    @property
    def own_rows(self) -> list[StepRow]:
        """All steps that the line is made of."""
        return [self.row(sequence) for sequence in self.line.steps]

    def row(self, sequence: int) -> StepRow:
        """A step of the same round, as it was recorded."""
        return next(row for row in self.rows if row.sequence == sequence)


def _rows_around(run: Run, sequence: int, rows: Sequence[StepRow] | None) -> list[StepRow]:
    """All steps of the round that `sequence` is in."""
    if rows is not None:
        rounds = {row.round for row in rows if row.sequence == sequence}
        return [row for row in rows if row.round in rounds]
    same_round = RunStep.objects.filter(run=run, sequence=sequence).values("round")
    return load_rows(RunStep.objects.filter(run=run, round__in=same_round))
