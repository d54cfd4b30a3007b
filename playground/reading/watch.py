"""What changed in a run since a reader last looked: the steps, the partial answer, the figures, the state."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.template.loader import render_to_string
from django.utils import timezone

from llmcore.runs.outcome import RunStatus
from llmcore.trace import StepKind
from playground.access import visible_runs
from playground.models import ProposedAction, Run, RunPartial, RunStep
from playground.numbers import plural
from playground.reading.approvals import ActionCard, read_waiting, waiting_count
from playground.reading.cache_misses import calls_before, mark_cache_misses, reports_cache
from playground.reading.ends import look_of
from playground.reading.lines import START, Line, Round, StepList
from playground.reading.page import read_head
from playground.reading.plan import read_plan
from playground.reading.so_far import streamed_tokens
from playground.reading.step_rows import StepRow, is_live, load_rows
from playground.reading.steps import read_steps
from playground.reading.summary import read_summary
from playground.reading.waiting import read_waiting_call

PARTS = ("text", "thinking", "tool_call")


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One piece of news. `id` is the newest step that it tells of: whoever has seen it goes on after that one."""

    name: str
    data: dict[str, Any]
    id: int | None = None

    def encode(self) -> str:
        """As a server-sent event. JSON has no line breaks, so the data is one line."""
        head = f"id: {self.id}\n" if self.id is not None else ""
        return f"{head}event: {self.name}\ndata: {json.dumps(self.data, ensure_ascii=True)}\n\n"

    def to_json(self) -> dict[str, Any]:
        return {"event": self.name, "id": self.id, "data": self.data}


@dataclass(kw_only=True)
class Watch:
    """A reader's place in a run: all up to the step `after` is on the page, which was read at `revision`.

    `ended` is set when there is nothing left to wait for: the run ended, is gone, or may not be seen any more.
    """

    run_id: int
    user: Any
    after: int
    revision: int | None = None
    ended: bool = False
    _state: tuple[Any, ...] | None = None
    _waiting: tuple[Any, ...] | None = None
    _sent: dict[str, str] = field(default_factory=dict)
    _place: str | None = None
    _streamed: int = 0

    def look(self) -> list[Event]:
        """The news since the last look. Without any it costs one indexed row."""
        revision = Run.objects.filter(pk=self.run_id).values_list("revision", flat=True).first()
        if revision is not None and revision == self.revision:
            return []
        self.revision = revision
        runs = visible_runs(self.user).select_related("user", "configuration").defer("prompt", "request")
        run = runs.filter(pk=self.run_id).first()
        if run is None:
            self.ended = True
            return [Event(name="end", data={"message": "The run is gone."})]
        return self._news(run)

    def _news(self, run: Run) -> list[Event]:
        state = (run.status, run.cancel_requested_at)
        state_changed, self._state = state != self._state, state
        steps = self._changed_steps(run) if run.last_sequence > self.after or state_changed else None
        events = self._step_events(run, steps, with_start=state_changed) if steps else []
        partial = RunPartial.objects.filter(run=run).first() if is_live(run) else None
        events += self._partial_events(run, partial)
        events += self._waiting_events(run, partial)
        if steps:
            events.append(self._summary_event(run, steps))
        events += self._approval_events(run)
        if state_changed:
            head = render_to_string("playground/run/run_head.html", read_head(run, user=self.user))
            events.append(Event(name="state", data={"html": head, "message": look_of(run).word}))
        if not is_live(run):
            self.ended = True
            events.append(Event(name="end", data={"message": f"The run ended: {look_of(run).word}."}))
        return events

    def _changed_steps(self, run: Run) -> _Changed:
        """The rounds that the new steps belong to, whole, for a result belongs to a call before it."""
        steps = RunStep.objects.filter(run=run)
        new = list(steps.filter(sequence__gt=self.after).values_list("sequence", "round"))
        from_round = min((number for _, number in new), default=run.rounds)
        rows = load_rows(steps.filter(round__gte=from_round))
        listed = read_steps(run, rows, timezone.now())
        if any(reports_cache(row) for row in rows):
            mark_cache_misses(listed.rounds, [*calls_before(run, from_round), *rows])
        return _Changed(rows, listed, {sequence for sequence, _ in new})

    def _step_events(self, run: Run, changed: _Changed, *, with_start: bool) -> list[Event]:
        events = []
        for line, in_round in changed.lines():
            # Ordered by the newest step of each line: the id then says that nothing before it is missing.
            newest = max(changed.new.intersection(line.steps))
            events.append(self._step_event(line, in_round, changed.steps, id=newest))
            self.after = max(self.after, newest)
        if with_start:
            events += [self._step_event(line, start, changed.steps) for start, line in changed.start()]
        return events

    def _step_event(self, line: Line, of: Round, steps: StepList, id: int | None = None) -> Event:
        frame = render_to_string("playground/run/round.html", {"round": of, "empty": True})
        data = {
            "line": line.sequence,
            "round": of.number,
            "html": render_to_string("playground/run/step_row.html", {"line": line}),
            "round_html": frame,
            "axis": round(steps.axis_ms),
            "running": line.running,
            "label": line.label,
        }
        return Event(name="step", data=data, id=id)

    def _partial_events(self, run: Run, partial: RunPartial | None) -> list[Event]:
        self._streamed = streamed_tokens(run, partial)
        if partial is None:
            self._sent = {}
            return []
        parts = {}
        for name in PARTS:
            text, before = getattr(partial, name), self._sent.get(f"{partial.round} {name}", "")
            if text != before:
                grown = bool(before) and text.startswith(before)
                parts[name] = {"append": grown, "text": text[len(before) :] if grown else text}
        self._sent = {f"{partial.round} {name}": getattr(partial, name) for name in PARTS}
        data = {"round": partial.round, "parts": parts, "tokens": self._streamed}
        return [Event(name="partial", data=data)] if parts else []

    def _waiting_events(self, run: Run, partial: RunPartial | None) -> list[Event]:
        """Where a call stands in line for its permit, or that a summary is written, whenever that has changed."""
        waiting = read_waiting_call(partial, read_plan(run)) if partial and partial.waiting else None
        # The page may show a wait that has ended before this first look.
        before = self._place if self._place is not None or run.permit_ms or self._has_summary(run) else ""
        self._place = waiting.text if waiting else ""
        if self._place == before:
            return []
        html = render_to_string("playground/run/run_waiting.html", {"waiting_call": waiting})
        message = f"{waiting.text}." if waiting else "The run goes on."
        return [Event(name="permit", data={"html": html, "message": message})]

    def _has_summary(self, run: Run) -> bool:
        return RunStep.objects.filter(run=run, kind=StepKind.COMPACTION).exists()

    def _approval_events(self, run: Run) -> list[Event]:
        """The cards of proposed actions, whenever one is new or decided."""
        actions = ProposedAction.objects.filter(run=run) if run.status == RunStatus.AWAITING_APPROVAL else None
        waiting = tuple(actions.order_by("pk").values_list("pk", "decision")) if actions is not None else ()
        before, self._waiting = self._waiting, waiting
        if waiting == (before or ()):
            return []
        turn = read_waiting(run, user=self.user, now=timezone.now())
        html = render_to_string("playground/run/run_approvals.html", {"run": run, "waiting": turn})
        return [Event(name="approvals", data={"html": html, "message": approvals_message(turn.cards)})]

    def _summary_event(self, run: Run, changed: _Changed) -> Event:
        plan = read_plan(run)
        summary = read_summary(run, changed.rows, plan, timezone.now(), streamed=self._streamed)
        html = render_to_string("playground/run/run_summary.html", {"run": run, "summary": summary})
        return Event(name="summary", data={"html": html, "elapsed": round(summary.elapsed_ms or 0.0)})


def approvals_message(cards: Sequence[ActionCard]) -> str:
    """What a screen reader says of the cards."""
    waiting = waiting_count(cards)
    return (
        f"{plural(waiting, 'action')} {'waits' if waiting == 1 else 'wait'} for a decision." if waiting else "Decided."
    )


@dataclass(frozen=True, slots=True)
class _Changed:
    rows: list[StepRow]
    steps: StepList
    new: set[int]

    def lines(self) -> list[tuple[Line, Round]]:
        """The lines that new steps belong to, those with the newest step last."""
        found = [(line, of) for of in self.steps.rounds for line in of.lines if self.new.intersection(line.steps)]
        return sorted(found, key=lambda pair: max(self.new.intersection(pair[0].steps)))

    def start(self) -> list[tuple[Round, Line]]:
        """The line that stands for the time before the first step."""
        return [(of, line) for of in self.steps.rounds for line in of.lines if line.sequence == START]
