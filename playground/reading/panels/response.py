"""Response: what the model answered, and the calls that it asked for. While it streams: what came so far."""

from __future__ import annotations

from llmcore.messages import Message
from llmcore.trace import StepKind
from playground.privacy import PrivacyLevel
from playground.reading.boxes import Box, any_box, json_box, text_box
from playground.reading.panels.base import Panel, Query, Tab, boxes_of
from playground.reading.panels.messages import Call
from playground.reading.so_far import streamed_tokens
from playground.reading.step_record import StepRecord
from playground.reading.waiting import read_waiting_call

LONG_ARGUMENTS = 300


def tab(record: StepRecord) -> Tab:
    return Tab(slug="response", title="Response", read=read)


def read(record: StepRecord, query: Query) -> Panel:
    end, message = record.end, record.message
    data = end.data if end else {}
    text = message.text if message else ""
    lines = record.tool_lines()
    calls = [Call(call=call, line=lines.get(call.id)) for call in message.tool_calls] if message else []
    box = any_box("text", "Answer", text) if text else None
    raw = [raw_arguments(call, index) for index, call in enumerate(calls)]
    context = {
        "box": box,
        "markdown": text if box and not box.is_json else "",
        "calls": [{"call": call, "raw": raw_box} for call, raw_box in zip(calls, raw, strict=True)],
        "error": data.get("error"),
        "refusal": data.get("refusal"),
        "cancelled": data.get("cancelled"),
        "finish_raw": data.get("finish_reason_raw"),
        "served_model": data.get("served_model"),
        "response_id": data.get("response_id"),
        "streaming": record.line.running,
        "partial": record.partial,
        "streamed": streamed_tokens(record.run, record.partial),
        "waiting": read_waiting_call(record.partial, record.plan),
        "unsent": not record.line.sent,
        "partial_stored": record.run.privacy_level != PrivacyLevel.METADATA,
        "unfinished": end is None and not record.line.running,
        "other_parts": _other_parts(message),
        "called": [] if message else [str(asked.get("name") or "") for asked in data.get("calls") or ()],
    }
    return Panel(template="response", context=context, boxes=boxes_of([box, *raw]))


def raw_arguments(call: Call, index: int) -> Box | None:
    """Arguments in full where one line can't show them."""
    if call.call.arguments is None:
        return text_box(f"call-{index}", "Arguments as they came", call.call.arguments_raw or "")
    box = json_box(f"call-{index}", "Arguments", call.call.arguments)
    return box if len(box.text) > LONG_ARGUMENTS else None


def _other_parts(message: Message | None) -> list[str]:
    """Parts of the answer that are neither text nor thinking."""
    return [part.kind for part in message.parts if part.kind not in ("text", "thinking")] if message else []


def is_call(record: StepRecord) -> bool:
    return record.kind in (StepKind.REQUEST.value, StepKind.RESPONSE.value)
