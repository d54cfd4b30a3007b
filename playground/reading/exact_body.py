"""The body of a request, byte for byte as it was sent: as it is stored, or built again from the recorded parts."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from typing import Any

from llmcore.configuration import LanguageModel, Parameters, Provider
from llmcore.errors import ConfigurationError
from llmcore.messages import Message, ToolSpec
from llmcore.providers.base import ModelCall, Transcript
from llmcore.providers.registry import adapter_of
from llmcore.providers.request_code import RepeatableRequest, repeatable_request, variable_name
from playground.reading.step_record import StepRecord, message_digests

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


def is_exact(record: StepRecord, body: bytes) -> bool:
    return hashlib.sha256(body).hexdigest() == record.first.data.get("body_sha256")


def request_of(record: StepRecord, body: bytes | None) -> RepeatableRequest | None:
    """The request with this body, for code that sends it again; `None` where it isn't what was sent."""
    if body is None or not is_exact(record, body):
        return None
    data = record.first.data
    provider = (record.plan.configuration or {}).get("provider") or {}
    return repeatable_request(
        method=data.get("method") or "POST",
        url=data.get("url") or "",
        headers=data.get("headers") or {},
        body=body,
        key_variable=variable_name(f"{provider.get('slug') or ''}_api_key"),
    )


def _call(record: StepRecord) -> ModelCall:
    data, configuration = record.first.data, record.plan.configuration or {}
    tools = record.content(data["tools"]) if data.get("tools") else []
    return ModelCall(
        provider=Provider(**_known(Provider, configuration["provider"])),
        model=LanguageModel(**_known(LanguageModel, {**configuration["model"], "prices": None})),
        parameters=Parameters.from_json(data["parameters"]),
        tools=tuple(ToolSpec.from_json(tool) for tool in tools),
        tool_choice=data["tool_choice"],
    )


def _messages(record: StepRecord) -> list[Message] | None:
    digests, _ = message_digests(record)
    values = record.contents(digests)
    if any(values.get(digest) is None for digest in digests):
        return None
    return [Message.from_json(values[digest]) for digest in digests]


def _known(kind: type[Any], data: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in data.items() if name in names}
