"""Start: what the run was asked for, and the configuration as it was then."""

from __future__ import annotations

from llmcore.runs.fork import without_contents
from playground.numbers import duration
from playground.reading.boxes import json_box, text_box
from playground.reading.panels.base import Panel, Query, Tab
from playground.reading.step_record import StepRecord


def tabs(record: StepRecord) -> list[Tab]:
    return [Tab(slug="start", title="Settings at start", read=read)]


def read(record: StepRecord, query: Query) -> Panel:
    run, plan = record.run, record.plan
    own = ("prompt", "variables")
    request = {name: value for name, value in run.request.items() if name not in own and value not in (None, [])}
    if run.request.get("fork"):
        # Its messages are those of the first request.
        request["fork"] = without_contents(run.request["fork"])
    boxes = [] if run.contents_deleted_at else [text_box("prompt", "User prompt", str(run.request.get("prompt") or ""))]
    if run.request.get("variables"):
        boxes.append(json_box("variables", "Values of variables", dict(run.request["variables"])))
    boxes.append(json_box("request", "Asked for", request))
    if plan.configuration:
        boxes.append(json_box("configuration", "Configuration, as it was", dict(plan.configuration)))
    if plan.parameters:
        boxes.append(json_box("parameters", "Parameters of each call", dict(plan.parameters)))
    if plan.limits:
        boxes.append(json_box("limits", "Limits", dict(plan.limits)))
    context = {
        "boxes": boxes,
        "waited": duration(record.line.duration_ms),
        "worker": run.worker,
        "attempt": run.attempt,
        "fingerprint": plan.fingerprint,
        "level": run.privacy_level,
    }
    return Panel(template="start", context=context, boxes=tuple(boxes))
