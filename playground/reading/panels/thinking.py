"""Thinking: what the provider returned of the model's reasoning."""

from __future__ import annotations

from playground.numbers import tokens
from playground.reading.boxes import text_box
from playground.reading.panels.base import Panel, Query, Tab
from playground.reading.step_record import StepRecord


def tab(record: StepRecord) -> Tab:
    return Tab(slug="thinking", title="Thinking", note=tokens(_billed(record) or None), read=read)


def read(record: StepRecord, query: Query) -> Panel:
    parts = [part for part in record.message.parts if part.kind == "thinking"] if record.message else []
    boxes = tuple(text_box(f"thinking-{i}", "Thinking", part.text) for i, part in enumerate(parts) if part.text)
    context = {
        "boxes": boxes,
        "hidden": sum(not part.text for part in parts),
        "signed": sum(part.extra is not None for part in parts),
        "billed": _billed(record),
        "thinking_ms": record.end.data.get("thinking_ms") if record.end else None,
        "streaming": record.line.running,
        "partial": record.partial,
    }
    return Panel(template="thinking", context=context, boxes=boxes)


def _billed(record: StepRecord) -> int | None:
    usage = (record.end.data.get("usage") if record.end else None) or {}
    count = usage.get("reasoning_output_tokens")
    return None if count is None else int(count)
