"""Deletes what a run said and keeps what it was: the rows of one run, which its caller has locked and found ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
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
    plan_without_contents,
    redacted_message,
    redacted_step,
    request_without_contents,
    step_without_contents,
)
from playground.models import Run, RunContent, RunPartial, RunStep, RunTool
from playground.pictures import pictures_in, without_pictures
from playground.rows import step_value
from playground.run_findings import findings_of
from playground.search import index_run
from playground.services.start_run import RunRequest, given_title
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
    bare = _changed_steps(run, lambda kind, data: step_without_contents(kind, data, names))
    RunStep.objects.bulk_update(bare, ["data"], batch_size=CHUNK)
    run.contents.update(value=Value(None, JSONField()))
    RunTool.objects.filter(run=run).exclude(name__in=names).delete()
    RunPartial.objects.filter(run=run).delete()
    _change(
        run,
        title=_title_of_a_person(run) or run.configuration_name,
        prompt="",
        request=request_without_contents(run.request),
        detail=detail_without_contents(run.reason, run.detail, run.error),
        error=error_without_contents(run.error),
        answer="",
        plan=run.plan and plan_without_contents(run.plan),
        findings=findings_without_contents(run.findings, _findings_again(run), names),
        contents_deleted_at=now,
        contents_kept_days=kept_days,
    )
    index_run(run.pk)


@dataclass(frozen=True, kw_only=True, slots=True)
class Masking:
    """What of a run's rows looks like a secret: the rows as they are without, and where the sources of the prompt are
    then."""

    steps: list[RunStep]
    contents: list[RunContent]
    tools: list[int]
    segments: list[Mapping[str, JSON]]


def find_secrets(run: Run, redactor: Redactor, *, between: Callable[[], object] = lambda: None) -> Masking:
    """Look through all that was said, which takes a second for each megabyte: better before the run is locked. What is
    stored doesn't change any more. `between` is called after each row.
    """
    contents, segments = _masked_contents(run, redactor, between)
    return Masking(
        steps=_changed_steps(run, lambda kind, data: redacted_step(kind, data, redactor)),
        contents=contents,
        tools=[tool.pk for tool in run.tools.all() if redactor.patterns(tool.name) != tool.name],
        segments=segments,
    )


def mask_contents(run: Run, masking: Masking, *, redactor: Redactor, now: datetime) -> None:
    """Put masks in the place of secrets, everywhere, and take pictures out: the run doesn't go on any more."""
    RunStep.objects.bulk_update(masking.steps, ["data"], batch_size=CHUNK)
    RunContent.objects.bulk_update(masking.contents, ["value"], batch_size=CHUNK)
    RunTool.objects.filter(pk__in=masking.tools).delete()
    texts = {name: redactor.patterns(getattr(run, name)) for name in ("title", "prompt", "detail", "answer")}
    asked = without_pictures(run.request, pictures_in(run.request))
    values = {"request": asked, "error": run.error, "findings": run.findings}
    values = {name: redactor.deep(value, patterns=True) for name, value in values.items()}
    plan = run.plan and redactor.deep({**run.plan, "segments": masking.segments}, patterns=True)
    _change(run, **texts, **values, plan=plan, redacted_at=now)
    index_run(run.pk)


def known_tools(run: Run) -> frozenset[str]:
    """The tools that the gate of the run looked at, by name."""
    gate: Mapping[str, Any] = (run.plan or {}).get("gate") or {}
    return frozenset(gate.get("offered") or ()) | {item["name"] for item in gate.get("left_out") or ()}


def _title_of_a_person(run: Run) -> str:
    texts = {name: run.request.get(name) or "" for name in ("configuration", "prompt")}
    rest = {name: run.request[name] for name in ("variables", "fork", "structured") if run.request.get(name)}
    asked = RunRequest.from_json({**texts, **rest})
    return given_title(run=run, request=asked)


def _change(run: Run, **columns: Any) -> None:
    Run.objects.filter(pk=run.pk).update(**columns, revision=F("revision") + 1)
    wake_on_commit(run.pk)


def _changed_steps(run: Run, change: Callable[[str, Mapping[str, JSON]], dict[str, JSON]]) -> list[RunStep]:
    """The steps that `change` makes others of."""
    changed = []
    for row in run.steps.iterator(CHUNK):
        data = change(row.kind, row.data)
        if data != row.data:
            row.data = data
            changed.append(row)
    return changed


def _findings_again(run: Run) -> Iterable[Mapping[str, JSON]]:
    """The findings of the steps as they are now, drawn from no contents."""
    steps = [step_value(row) for row in run.steps.all()]
    return findings_of(run, steps, {}, reason=EndReason(run.reason)) if run.reason else ()


def _masked_contents(
    run: Run, redactor: Redactor, between: Callable[[], object]
) -> tuple[list[RunContent], list[Mapping[str, JSON]]]:
    plan = run.plan or {}
    segments = list(plan.get("segments") or ())
    # Pictures come into a run with what it was asked for only.
    pictures = pictures_in(run.request)
    places: dict[str, set[int]] = {}
    for index, digest in enumerate((plan.get("state") or {}).get("messages") or ()):
        places.setdefault(digest, set()).add(index)
    changed = []
    for row in run.contents.iterator(CHUNK):
        seen = without_pictures(row.value, pictures)
        if row.digest in places:
            own = [segment for segment in segments if segment["message"] in places[row.digest]]
            value, moved = redacted_message(seen, own, redactor)
            segments = [segment for segment in segments if segment not in own] + moved
        else:
            value = redactor.deep(seen, patterns=True)
        if value != row.value:
            row.value = value
            changed.append(row)
        between()
    return changed, sorted(segments, key=lambda segment: (segment["message"], segment["part"], segment["start"]))
