"""Deletes what a run said and keeps what it was: the rows of one run, which its caller has locked and found ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db.models import F, JSONField, Value

from llmcore.messages import JSON
from llmcore.redaction import Redactor
from llmcore.runs.outcome import EndReason
from playground.content import (
    detail_without_contents,
    error_without_contents,
    findings_without_contents,
    redacted_message,
    redacted_step,
    request_without_contents,
    step_without_contents,
)
from playground.models import Run, RunContent, RunPartial, RunStep, RunTool
from playground.rows import step_value
from playground.run_findings import findings_of
from playground.search import index_run
from playground.services.start_run import RunRequest, title_of
from playground.wakeups import wake_on_commit

# So many rows are read, changed and written at a time.
CHUNK = 100


def delete_raw(run: Run, *, kept_days: int | None, now: datetime) -> None:
    """Delete the captured requests and responses."""
    run.exchanges.all().delete()
    _change(run, raw_deleted_at=now, raw_kept_days=kept_days)


def delete_contents(run: Run, *, kept_days: int | None, now: datetime) -> None:
    """Delete everything that was said. Figures, names, digests and sizes stay, and findings in words without it."""
    names = known_tools(run)
    _change_steps(run, lambda kind, data: step_without_contents(kind, data, names))
    run.contents.update(value=Value(None, JSONField()))
    RunTool.objects.filter(run=run).exclude(name__in=names).delete()
    RunPartial.objects.filter(run=run).delete()
    _change(
        run,
        title=run.configuration_name if run.title == title_from_prompt(run) else run.title,
        prompt="",
        request=request_without_contents(run.request),
        detail=detail_without_contents(run.reason, run.detail, run.error),
        error=error_without_contents(run.error),
        answer="",
        findings=findings_without_contents(run.findings, _findings_again(run), names),
        contents_deleted_at=now,
        contents_kept_days=kept_days,
    )
    index_run(run.pk)


def redact_contents(run: Run, *, redactor: Redactor, now: datetime) -> None:
    """Mask whatever looks like a secret, everywhere: the run doesn't go on any more."""
    _change_steps(run, lambda kind, data: redacted_step(kind, data, redactor))
    segments = _redact_values(run, redactor)
    RunTool.objects.filter(
        run=run, pk__in=[tool.pk for tool in run.tools.all() if _masked(tool.name, redactor)]
    ).delete()
    plan = run.plan and {**redactor.deep(run.plan, patterns=True), "segments": redactor.deep(segments, patterns=True)}
    texts = {name: redactor.patterns(getattr(run, name)) for name in ("title", "prompt", "detail", "answer")}
    values = {name: redactor.deep(getattr(run, name), patterns=True) for name in ("request", "error", "findings")}
    _change(run, **texts, **values, plan=plan, redacted_at=now)
    index_run(run.pk)


def known_tools(run: Run) -> frozenset[str]:
    """The tools that the gate of the run looked at, by name."""
    gate: Mapping[str, Any] = (run.plan or {}).get("gate") or {}
    return frozenset(gate.get("offered") or ()) | {item["name"] for item in gate.get("left_out") or ()}


def title_from_prompt(run: Run) -> str:
    """The title that the run has unless a person gave it one."""
    asked = run.request
    return title_of(RunRequest(configuration=asked.get("configuration", ""), prompt=asked.get("prompt", "")))


def _change(run: Run, **columns: Any) -> None:
    Run.objects.filter(pk=run.pk).update(**columns, revision=F("revision") + 1)
    wake_on_commit(run.pk)


def _change_steps(run: Run, change: Callable[[str, Mapping[str, JSON]], dict[str, JSON]]) -> None:
    changed = []
    for row in run.steps.iterator(CHUNK):
        data = change(row.kind, row.data)
        if data != row.data:
            row.data = data
            changed.append(row)
    RunStep.objects.bulk_update(changed, ["data"], batch_size=CHUNK)


def _findings_again(run: Run) -> Iterable[Mapping[str, JSON]]:
    """The findings of the steps as they are now, drawn from no contents."""
    steps = [step_value(row) for row in run.steps.all()]
    return findings_of(run, steps, {}, reason=EndReason(run.reason)) if run.reason else ()


def _redact_values(run: Run, redactor: Redactor) -> list[Mapping[str, JSON]]:
    """Redact the stored values; the segments of the prompt where they are then."""
    plan = run.plan or {}
    segments = list(plan.get("segments") or ())
    places: dict[str, set[int]] = {}
    for index, digest in enumerate((plan.get("state") or {}).get("messages") or ()):
        places.setdefault(digest, set()).add(index)
    changed = []
    for row in run.contents.iterator(CHUNK):
        if row.digest in places:
            own = [segment for segment in segments if segment["message"] in places[row.digest]]
            value, moved = redacted_message(row.value, own, redactor)
            segments = [segment for segment in segments if segment not in own] + moved
        else:
            value = redactor.deep(row.value, patterns=True)
        if value != row.value:
            row.value = value
            changed.append(row)
    RunContent.objects.bulk_update(changed, ["value"], batch_size=CHUNK)
    return sorted(segments, key=lambda segment: (segment["message"], segment["part"], segment["start"]))


def _masked(text: str, redactor: Redactor) -> bool:
    return redactor.patterns(text) != text
