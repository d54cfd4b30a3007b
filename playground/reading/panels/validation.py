"""Validation: whether an answer fits its schema, where it doesn't, and the schemas that it was held to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmcore.messages import Message
from llmcore.providers.json_text import unfenced
from llmcore.structured.response_schema import ResponseSchema
from llmcore.trace import StepKind
from playground.reading.boxes import Box, any_box, json_box
from playground.reading.panels.base import Panel, Query, Tab, boxes_of
from playground.reading.step_record import REQUESTS, StepRecord


def tabs(record: StepRecord) -> list[Tab]:
    return [Tab(slug="validation", title="Validation", read=read), Tab(slug="schemas", title="Schemas", read=schemas)]


def read(record: StepRecord, query: Query) -> Panel:
    data = record.first.data
    objections = record.content(data["objections"]) if data.get("objections") else []
    box = answer_box(record)
    context = {
        "data": data,
        "objections": objections or [],
        "more": (data.get("count") or 0) - len(objections or []),
        "box": box,
        "repair_round": record.line.round + 1 if data.get("repair") else None,
    }
    return Panel(template="validation", context=context, boxes=boxes_of([box]))


def answer_box(record: StepRecord) -> Box | None:
    """The answer that was checked: that of the same round."""
    digests = [row.data.get("message") for row in record.rows if row.kind == StepKind.RESPONSE]
    value = record.content(digests[-1]) if digests and digests[-1] else None
    return any_box("answer", "Answer", unfenced(Message.from_json(value).text)[0]) if value else None


def schemas(record: StepRecord, query: Query) -> Panel:
    """The schema that an answer has to fit, and what the provider was told of it."""
    data = record.first.data
    stored = expected_schema(record)
    sent = [row.data.get("response_schema") for row in record.rows if row.kind in REQUESTS]
    wire = record.content(sent[-1]) if sent and sent[-1] and data.get("native") else None
    original = json_box("original", str(data.get("schema") or ""), stored.json) if stored else None
    derived = json_box("derived", "Sent to the provider", wire) if wire is not None else None
    context = {
        "data": data,
        "original": original,
        "derived": derived,
        "derived_sha256": ResponseSchema.of("", wire).sha256 if wire is not None else "",
    }
    return Panel(template="schemas", context=context, boxes=boxes_of([original, derived]))


def expected_schema(record: StepRecord) -> ResponseSchema | None:
    """As the plan of the run keeps it; it is no content of the run's."""
    state: Mapping[str, Any] = (record.run.plan or {}).get("state") or {}
    expected = state.get("expected") or {}
    return ResponseSchema(**expected["schema"]) if expected.get("schema") else None
