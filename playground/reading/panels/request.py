"""Request: what went over the wire, or in a dry run would have gone."""

from __future__ import annotations

import json

from llmcore.trace import StepKind
from playground.models import RunStep
from playground.reading.boxes import any_box
from playground.reading.panels.base import Panel, Query, Tab, boxes_of
from playground.reading.step_record import StepRecord


def tab(record: StepRecord) -> Tab:
    return Tab(slug="request", title="Request", read=read)


def read(record: StepRecord, query: Query) -> Panel:
    data = record.first.data
    body = _body(record)
    box = None if body is None else any_box("body", "Request body", body, note=f"{data.get('method', 'POST')}")
    given = {name: value for name, value in (data.get("parameters") or {}).items() if value not in (None, [], ())}
    context = {
        "data": data,
        "parameters": {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()},
        "headers": data.get("headers") or {},
        "box": box,
        "assembled": record.kind == StepKind.ASSEMBLED,
        "capture_raw": record.run.capture_raw,
        "may_see_raw": record.may_see_raw,
        "dry_run": _same_as_dry_run(record),
    }
    return Panel(template="request", context=context, boxes=boxes_of([box]))


def _body(record: StepRecord) -> str | None:
    """The exact body: a dry run keeps it, raw capture has it for those who may see that."""
    if digest := record.first.data.get("body"):
        stored = record.content(digest)
        return None if stored is None else str(stored)
    if record.exchanges:
        return bytes(record.exchanges[0].request_body).decode("utf-8", "replace")
    return None


def _same_as_dry_run(record: StepRecord) -> dict[str, object] | None:
    """How round 1 compares with the dry run that this run was started from."""
    parent = record.run.parent
    if record.line.round != 1 or record.kind != StepKind.REQUEST or parent is None or not parent.dry_run:
        return None
    assembled = RunStep.objects.filter(run=parent, kind=StepKind.ASSEMBLED.value).values_list("data", flat=True).first()
    if assembled is None:
        return None
    return {"run": parent, "same": assembled.get("body_sha256") == record.first.data.get("body_sha256")}
