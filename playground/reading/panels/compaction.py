"""The tabs of a compaction: what stands for the old turns now, how that came about, and what they were."""

from __future__ import annotations

from typing import Any

from llmcore.context.summary import Problem
from llmcore.messages import Message
from llmcore.usage import Usage
from playground.reading.boxes import text_box
from playground.reading.panels import raw
from playground.reading.panels.base import Panel, Query, Tab, boxes_of
from playground.reading.step_record import StepRecord


def tabs(record: StepRecord) -> list[Tab]:
    return [
        Tab(slug="summary", title="Summary", read=read_summary),
        Tab(slug="before", title="Before", read=read_before, note=str(record.first.data.get("messages") or "")),
        raw.tab(record),
    ]


def read_summary(record: StepRecord, query: Query) -> Panel:
    data: dict[str, Any] = dict(record.first.data)
    message = record.content(data["message"])
    text = Message.from_json(message).text if message else None
    box = text_box("summary", "What stands there now", text) if text is not None else None
    context = {
        "data": data,
        "problem": Problem(data["problem"]).explanation if data.get("problem") else "",
        "error": data.get("error"),
        "saved": (data.get("tokens_before") or 0) - (data.get("tokens_after") or 0),
        "usage": Usage.from_json({**data["usage"], "raw": None}) if data.get("usage") else None,
        "box": box,
    }
    return Panel(template="compaction", context=context, boxes=boxes_of([box]))


def read_before(record: StepRecord, query: Query) -> Panel:
    text = record.content(record.first.data["record"])
    box = text_box("before", "The record of the old turns, as it went to be summarized", text) if text else None
    return Panel(template="boxes", context={"boxes": boxes_of([box])}, boxes=boxes_of([box]))
