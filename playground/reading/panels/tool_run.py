"""The tabs of a tool run: its result, its arguments, both as they are stored, and the traceback of a failure."""

from __future__ import annotations

from typing import Any

from playground.reading.artifacts import MAX_LISTED, ArtifactView, artifact_views, rendered_notes
from playground.reading.boxes import Box, any_box, json_box, pretty, text_box
from playground.reading.panels.base import Panel, Query, Tab, boxes_of
from playground.reading.step_record import StepRecord

ERROR_KINDS = {
    "parse": "The arguments are not a JSON object.",
    "schema": "The arguments don't fit the tool's schema.",
    "unknown_tool": "There is no tool of this name.",
    "not_offered": "The tool was not offered in this run.",
    "cut_off": "The answer was cut off, so this call may be incomplete. It was not executed.",
    "tool_error": "The tool reported an error.",
    "exception": "The tool failed with an exception.",
    "timeout": "The tool did not finish in time.",
    "needs_approval": "The tool needs an approval.",
    "denied": "The call was denied.",
    "halted": "A hook halted the run.",
    "cancelled": "The run was cancelled.",
    "round_limit": "The run had reached its limit of rounds, so the call was not executed.",
    "interrupted": "The worker was lost during this call.",
    "not_recorded": "The run has no recorded result that it could give this call.",
}


def tabs(record: StepRecord) -> list[Tab]:
    found = [
        Tab(slug="result", title="Result", read=read_result),
        Tab(slug="arguments", title="Arguments", read=read_arguments),
        Tab(slug="raw", title="Raw", read=read_raw),
    ]
    if record.end and record.end.data.get("traceback"):
        found.append(Tab(slug="traceback", title="Traceback", read=read_traceback))
    return found


def read_result(record: StepRecord, query: Query) -> Panel:
    data: dict[str, Any] = dict(record.end.data) if record.end else {}
    text, failed = record.message.text if record.message else None, bool(data.get("is_error"))
    box = any_box("result", "Result, as the model got it", text) if text is not None and not failed else None
    error = text_box("error", "Error, as the model got it", text) if text is not None and failed else None
    full = _full(record, data)
    artifacts = record.content(data["artifacts"]) if data.get("artifacts") else None
    sequence = record.end.sequence if record.end else record.sequence
    views = artifact_views(artifacts, sequence=sequence, line=record.sequence, round=record.line.round)
    notes = rendered_notes(views)
    handed_over = [(view, None if view in notes else _artifact_box(view)) for view in views[:MAX_LISTED]]
    context = {
        "data": data,
        "box": box,
        "failed": failed,
        "error": error,
        "explanation": ERROR_KINDS.get(data.get("error_kind") or "", ""),
        "arguments": arguments_box(record),
        "full": full,
        "artifacts": handed_over,
        "more_artifacts": len(views) > MAX_LISTED,
        "running": record.line.running,
        "unfinished": record.end is None and not record.line.running,
        "repeat": record.first.data.get("repeat") or 1,
        "origin": data.get("origin"),
    }
    artifact_boxes = [artifact_box for _, artifact_box in handed_over]
    return Panel(
        template="result", context=context, boxes=boxes_of([box, error, arguments_box(record), full, *artifact_boxes])
    )


def _artifact_box(view: ArtifactView) -> Box:
    """What an artifact holds that is not rendered."""
    make = text_box if view.kind else any_box
    return make(f"artifact-{view.index}", view.name, view.text, note=view.label)


def read_arguments(record: StepRecord, query: Query) -> Panel:
    box = arguments_box(record)
    context = {"box": box, "problem": record.first.data.get("problem"), "data": record.first.data}
    return Panel(template="arguments", context=context, boxes=boxes_of([box]))


def read_raw(record: StepRecord, query: Query) -> Panel:
    boxes = [json_box("call", "Call step", record.first.data)]
    if record.end is not None and record.end is not record.first:
        boxes.append(json_box("end", "Result step", record.end.data))
    if record.message:
        boxes.append(json_box("message", "Message to the model", record.message.json))
    return Panel(template="boxes", context={"boxes": boxes}, boxes=tuple(boxes))


def read_traceback(record: StepRecord, query: Query) -> Panel:
    digest = record.end.data.get("traceback") if record.end else None
    text = record.content(digest) if digest else None
    boxes = [] if text is None else [text_box("traceback", "Traceback", str(text), note="not sent to the model")]
    return Panel(template="boxes", context={"boxes": boxes}, boxes=tuple(boxes))


def arguments_box(record: StepRecord) -> Box | None:
    """The arguments: an object, or the text as it came where it can't be decoded."""
    digest = record.first.data.get("arguments")
    value = record.content(digest) if digest else None
    if value is None:
        return None
    if isinstance(value, str):
        return text_box("arguments", "Arguments as they came", value)
    return json_box("arguments", "Arguments", value)


def _full(record: StepRecord, data: dict[str, Any]) -> Box | None:
    """The whole result where the model got less."""
    value = record.content(data["full"]) if data.get("full") else None
    if value is None:
        return None
    return any_box("full", "Whole result", value if isinstance(value, str) else pretty(value))
