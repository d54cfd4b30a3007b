"""The body of a request, byte for byte as it was sent: as it is stored, or built again from the recorded parts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from llmcore.configuration import LanguageModel, Parameters, Provider
from llmcore.errors import ConfigurationError
from llmcore.messages import JSON, Message, ToolSpec
from llmcore.prompts.layout import Layout, lay_out
from llmcore.prompts.provenance import Segment
from llmcore.providers.base import ModelCall, Transcript
from llmcore.providers.registry import adapter_of
from llmcore.providers.request_code import RepeatableRequest, repeatable_request, variable_name
from playground.reading.plan import Plan
from playground.reading.step_record import StepRecord

# What reading a recorded value of another version of this program, or a masked one, may end in.
UNREADABLE = (ConfigurationError, KeyError, TypeError, ValueError)


def stored_body(record: StepRecord) -> bytes | None:
    """The body that a dry run kept, or that raw capture has for those who may see it."""
    if digest := record.first.data.get("body"):
        stored = record.content(digest)
        return None if stored is None else str(stored).encode("utf-8", "replace")
    return bytes(record.exchanges[0].request_body) if record.exchanges else None


def built_body(record: StepRecord) -> bytes | None:
    """The body as the adapter builds it from what is recorded of the request; `None` where that gives another one.

    This program may encode differently since: only the same hash says that it is the same body.
    """
    try:
        call, messages = _call(record), _messages(record)
        if messages is None:
            return None
        adapter = adapter_of(call.provider, call.model)
        body = adapter.frame(call, Transcript(adapter, call, messages).encoded()).body
        return body if is_exact(record, body) else None
    except UNREADABLE:
        return None


def layout_of(record: StepRecord) -> Layout | None:
    """Where each source stands in the body, as it was sent or, where that isn't stored, as it is built again; `None`
    where neither can be had."""
    try:
        call, messages, plan = _call(record), _messages(record), record.plan
        if messages is None:
            return None
        known = [segment for segment in plan.segments if _is_there(segment, plan, messages)]
        return lay_out(call, messages, known, stored_body(record))
    except UNREADABLE:
        return None


def may_build(record: StepRecord) -> bool:
    """Whether the parts are there, unchanged, and the body isn't one that the reader may not see."""
    run = record.run
    withheld = run.capture_raw and not record.may_see_raw
    return not (withheld or run.contents_deleted_at or run.redacted_at)


def is_exact(record: StepRecord, body: bytes) -> bool:
    return hashlib.sha256(body).hexdigest() == record.first.data.get("body_sha256")


def request_of(record: StepRecord, body: bytes | None) -> RepeatableRequest | None:
    """The request with this body, for code that sends it again; `None` where it isn't what was sent."""
    if body is None or not is_exact(record, body):
        return None
    data = record.first.data
    provider = record.plan.route_of(data).get("provider") or {}
    return repeatable_request(
        method=data.get("method") or "POST",
        url=data.get("url") or "",
        headers=data.get("headers") or {},
        body=body,
        key_variable=variable_name(f"{provider.get('slug') or ''}_api_key"),
    )


def _is_there(segment: Segment, plan: Plan, messages: Sequence[Message]) -> bool:
    """Whether the message of the segment is still the one that was assembled."""
    place = segment.message
    return place < min(len(messages), len(plan.messages)) and messages[place].digest == plan.messages[place]


def _call(record: StepRecord) -> ModelCall:
    data = record.first.data
    route = record.plan.route_of(data)
    tools = record.content(data["tools"]) if data.get("tools") else []
    return ModelCall(
        provider=Provider(**_known(Provider, route["provider"])),
        model=LanguageModel(**_known(LanguageModel, {**route["model"], "prices": None})),
        parameters=Parameters.from_json(data["parameters"]),
        tools=tuple(ToolSpec.from_json(tool) for tool in tools),
        tool_choice=data["tool_choice"],
        response_schema=_response_schema(record),
    )


def _response_schema(record: StepRecord) -> JSON:
    digest = record.first.data.get("response_schema")
    return record.content(digest) if digest else None


def _messages(record: StepRecord) -> list[Message] | None:
    digests, _ = record.message_digests
    values = record.contents(digests)
    if any(values.get(digest) is None for digest in digests):
        return None
    return [Message.from_json(values[digest]) for digest in digests]


def _known(kind: type[Any], data: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in data.items() if name in names}
