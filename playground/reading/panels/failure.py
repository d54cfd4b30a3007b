"""Error: a failed attempt or a failure of the runtime, with its advice."""

from __future__ import annotations

from llmcore.errors import advice_of
from playground.reading.boxes import json_box, text_box
from playground.reading.panels.base import Panel, Query, Tab
from playground.reading.step_record import StepRecord


def tabs(record: StepRecord) -> list[Tab]:
    return [Tab(slug="error", title="Error", read=read)]


def read(record: StepRecord, query: Query) -> Panel:
    data = record.first.data
    error = data.get("error") or data
    kind = str(error.get("kind") or "")
    boxes = [json_box("data", "As recorded", dict(data))]
    digest = data.get("traceback")
    if digest and (traceback := record.content(digest)) is not None:
        boxes.insert(0, text_box("traceback", "Traceback", str(traceback)))
    context = {
        "kind": kind.replace("_", " "),
        "status": error.get("status"),
        "said": error.get("message") or "",
        "advice": advice_of(error),
        "wait_s": data.get("wait_s"),
        "boxes": boxes,
    }
    return Panel(template="error", context=context, boxes=tuple(boxes))
