"""Request: what went over the wire, or in a dry run would have gone, and code that sends it again."""

from __future__ import annotations

import json

from llmcore.providers.base import TRANSPORT_HEADERS
from llmcore.providers.request_code import RepeatableRequest, curl_command, httpx_code
from llmcore.trace import StepKind
from playground.reading.boxes import Box, any_box, text_box
from playground.reading.dry_run import match_of_request
from playground.reading.exact_body import built_body, may_build, request_of, stored_body
from playground.reading.panels.base import Panel, Query, Tab, boxes_of
from playground.reading.step_record import StepRecord

# The boxes of a body that is not stored but built again, which is done when it is asked for.
BUILT = "built"
# The box of the command, whether the body is stored or has to be built.
CURL = "command"


def tab(record: StepRecord) -> Tab:
    return Tab(slug="request", title="Request", read=read)


def read(record: StepRecord, query: Query) -> Panel:
    if query.part == BUILT or query.box.startswith(f"{BUILT}-"):
        return _built(record)
    if query.box == CURL:
        return _command(record)
    data = record.first.data
    body = stored_body(record)
    given = {name: value for name, value in (data.get("parameters") or {}).items() if value not in (None, [], ())}
    sent = request_of(record, body)
    boxes = {} if body is None else _boxes(record, sent, body)
    context = {
        "data": data,
        "parameters": {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()},
        "headers": _headers(record),
        **boxes,
        "variables": sent.variables if sent else [],
        "may_build": body is None and may_build(record),
        "attempts": record.end.data.get("attempts") if record.end else None,
        "assembled": record.kind == StepKind.ASSEMBLED,
        "capture_raw": record.run.capture_raw,
        "may_see_raw": record.may_see_raw,
        "match": match_of_request(record),
    }
    return Panel(template="request", context=context, boxes=boxes_of(boxes.values()))


def curl_url(record: StepRecord, sequence: int) -> str:
    """Where the command is fetched that sends the request `sequence` of this round again; empty if that can't be."""
    kept = record.row(sequence).data.get("body") or (record.run.capture_raw and record.may_see_raw)
    return record.url_of(sequence, tab="request", box=CURL) if kept or may_build(record) else ""


def _command(record: StepRecord) -> Panel:
    body = stored_body(record)
    if body is None and may_build(record):
        body = built_body(record)
    sent = request_of(record, body)
    return Panel(template="boxes", boxes=(text_box(CURL, "cURL", curl_command(sent)),) if sent else ())


def _built(record: StepRecord) -> Panel:
    """The body again, from the recorded messages, tools and parameters."""
    body = built_body(record) if may_build(record) else None
    sent = request_of(record, body)
    boxes = {} if body is None else _boxes(record, sent, body, prefix=f"{BUILT}-")
    context = {**boxes, "variables": sent.variables if sent else []}
    return Panel(template="request_built", context=context, boxes=boxes_of(boxes.values()))


def _boxes(
    record: StepRecord, sent: RepeatableRequest | None, body: bytes, *, prefix: str = ""
) -> dict[str, Box | None]:
    method = str(record.first.data.get("method") or "POST")
    return {
        "box": any_box(f"{prefix}body", "Request body", body.decode("utf-8", "replace"), note=method),
        "curl": text_box(f"{prefix}curl", "cURL", curl_command(sent)) if sent else None,
        "httpx": text_box(f"{prefix}httpx", "httpx", httpx_code(sent)) if sent else None,
    }


def _headers(record: StepRecord) -> dict[str, str]:
    """All headers as they were captured, else those that the request is known to have."""
    if record.exchanges:
        return dict(record.exchanges[0].request_headers)
    return {**(record.first.data.get("headers") or {}), **TRANSPORT_HEADERS}
