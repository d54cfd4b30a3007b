"""The whole page of a run, built from a fixed number of queries however long the run is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse

from playground import access
from playground.deletions import contents_deletion, redaction
from playground.models import Run, RunPartial, RunStep
from playground.numbers import plural
from playground.reading.answer_checks import read_checks
from playground.reading.approvals import read_waiting
from playground.reading.artifacts import read_artifacts
from playground.reading.boxes import byte_size
from playground.reading.cache_misses import mark_cache_misses
from playground.reading.family import Surroundings, read_family, read_surroundings
from playground.reading.lines import START, Line, StepList
from playground.reading.notes import end_note
from playground.reading.overview import read_overview
from playground.reading.plan import read_plan
from playground.reading.since import read_since
from playground.reading.so_far import streamed_tokens
from playground.reading.step_actions import StepActions, read_actions
from playground.reading.step_record import StepRecord
from playground.reading.step_rows import StepRow, is_live, load_rows
from playground.reading.steps import read_rounds
from playground.reading.summary import read_summary
from playground.reading.waiting import read_waiting_call
from playground.reading.ways import way_to_mend
from playground.reading.window import ALL_STEPS, Find, StepFilter, line_of_round, read_window
from playground.services.annotate_run import digest_of_note

SEVERITIES = {"error": ("err", "error"), "warning": ("warn", "warn"), "note": ("info", "info")}


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingView:
    """A detected problem as it is shown. `sequence` is the line to open, `where` its name."""

    severity: str
    title: str
    detail: str
    impact: str
    sequence: int | None
    tab: str
    where: str

    @property
    def css(self) -> str:
        return SEVERITIES.get(self.severity, SEVERITIES["note"])[0]

    @property
    def icon(self) -> str:
        return SEVERITIES.get(self.severity, SEVERITIES["note"])[1]


def read_page(
    run: Run,
    *,
    user: Any,
    now: datetime,
    at: int | None = None,
    filter: StepFilter = ALL_STEPS,
    around: Surroundings | None = None,
) -> dict[str, Any]:
    """The context of the page, with the lines around `at` in its step list; by default around the line to open."""
    rows = load_rows(RunStep.objects.filter(run=run))
    plan = read_plan(run)
    steps = steps_of(run, rows)
    findings = read_findings(run.findings or (), steps)
    open_step = first_open(steps, live=is_live(run))
    shown = open_step if at is None else at
    partial = RunPartial.objects.filter(run=run).first() if is_live(run) else None
    return {
        **window_of(run, steps, now=now, at=shown, filter=filter),
        "summary": read_summary(run, rows, plan, now, streamed=streamed_tokens(run, partial)),
        "note": end_note(run, plan, steps),
        "way": way_to_mend(run, rows, user),
        "findings": findings,
        "findings_counted": count_findings(findings),
        "findings_text": "\n".join(as_text(finding) for finding in findings),
        "answer_size": byte_size(run.answer),
        "checks": read_checks(run, rows),
        "artifacts": read_artifacts(run, steps, rows),
        "note_digest": digest_of_note(run.note),
        "open_step": open_step,
        "step_actions": actions_of(run, shown, user=user, rows=rows),
        "waiting": read_waiting(run, user=user, now=now),
        "waiting_call": read_waiting_call(partial, plan),
        "since": read_since(run, user=user),
        **read_head(run, user=user, around=around),
    }


def actions_of(run: Run, sequence: int, *, user: Any, rows: Sequence[StepRow]) -> StepActions | None:
    """What can be done with the step that the page opens on, so that its head is whole from the start; `None` where
    there is no such step."""
    try:
        return read_actions(StepRecord(run, sequence, user=user, rows=rows))
    except LookupError:
        return None


def read_step_list(
    run: Run,
    *,
    now: datetime,
    at: int = START,
    round: int | None = None,
    find: Find | None = None,
    filter: StepFilter = ALL_STEPS,
) -> dict[str, Any]:
    """The context of the step list alone: around `at`, or what is found from there, or the beginning of `round`."""
    steps = steps_of(run, load_rows(RunStep.objects.filter(run=run)))
    at = at if round is None else line_of_round(steps, round)
    return {"run": run, "live": is_live(run), **window_of(run, steps, now=now, at=at, find=find, filter=filter)}


def steps_of(run: Run, rows: Sequence[StepRow]) -> StepList:
    """All steps of the run, with what only a look at all of them tells."""
    rounds = read_rounds(run, rows)
    mark_cache_misses(rounds, rows)
    return StepList(rounds=rounds)


def window_of(
    run: Run, steps: StepList, *, now: datetime, at: int, find: Find | None = None, filter: StepFilter = ALL_STEPS
) -> dict[str, Any]:
    window = read_window(run, steps, now, at=at, find=find, filter=filter)
    return {
        "steps": steps,
        "window": window,
        "filtered": filter != ALL_STEPS,
        "overview": read_overview(steps) if window.long else None,
    }


def read_head(run: Run, *, user: Any, around: Surroundings | None = None) -> dict[str, Any]:
    """What the head of the page depends on: the state of the run, and what the reader may do about it. `around` is what
    stands around it, where that was just read."""
    live = is_live(run)
    around = around or read_surroundings(run, user=user)
    return {
        "run": run,
        "live": live,
        "tags": list(around.tags),
        "may_annotate": access.may_annotate(user, run),
        "may_start": user.has_perm("playground.add_run"),
        "may_cancel": live and access.may_cancel(user, run),
        "may_continue": run.continuable and access.may_continue(user, run),
        "may_delete": not live and access.may_delete(user, run),
        "contents_gone": contents_deletion(run),
        "redacted": redaction(run),
        "configuration_url": configuration_url(run, user),
        **read_family(run, user=user, around=around),
    }


def configuration_url(run: Run, user: Any) -> str:
    may_see = user.has_perm("llmcore.view_configuration") or user.has_perm("llmcore.change_configuration")
    if run.configuration_id is None or not may_see:
        return ""
    return reverse("admin:llmcore_configuration_change", args=[run.configuration_id])


def first_open(steps: StepList, *, live: bool) -> int:
    """The line that the page opens on: the newest of a live run, what failed last, else the first model call."""
    lines = steps.lines
    if live:
        return lines[-1].sequence if lines else START
    failed = [line for line in lines if line.failed and line.css in ("call", "error")]
    if failed:
        return failed[-1].sequence
    return next((line.sequence for line in lines if line.css == "call"), START)


def read_findings(stored: Iterable[Mapping[str, Any]], steps: StepList) -> list[FindingView]:
    lines = {sequence: line for line in steps.lines for sequence in line.steps}
    views = []
    for finding in stored:
        line = lines.get(finding["sequence"]) if finding.get("sequence") else None
        views.append(
            FindingView(
                severity=finding.get("severity") or "note",
                title=finding.get("title") or "",
                detail=finding.get("detail") or "",
                impact=finding.get("impact") or "",
                sequence=line.sequence if line else None,
                tab=finding.get("tab") or "",
                where=place_of(line, finding.get("tab") or "") if line else "",
            )
        )
    return views


def place_of(line: Line, tab: str) -> str:
    """How a link to a line is called: "Round 2, search_orders", "Round 3, messages"."""
    name = tab if tab and line.css == "call" else line.name
    return f"Round {line.round}, {name}" if line.round else line.name


def count_findings(findings: list[FindingView]) -> str:
    counted = [
        plural(count, severity)
        for severity in SEVERITIES
        if (count := sum(finding.severity == severity for finding in findings))
    ]
    return ", ".join(counted)


def as_text(finding: FindingView) -> str:
    where = f" ({finding.where})" if finding.where else ""
    impact = f" [{finding.impact}]" if finding.impact else ""
    return f"{finding.severity.upper()}: {finding.title}. {finding.detail}{impact}{where}".replace("`", "").strip()
