"""Turns the neutral form of a case's request into the runtime's values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from llmcore.configuration import LanguageModel, Parameters, Provider, Secret
from llmcore.messages import JSON, Message, ModelResponse, Part, ToolCall, ToolSpec
from llmcore.providers.arguments import read_arguments
from llmcore.providers.base import Adapter, ModelCall
from llmcore.providers.call_drafts import with_unique_ids
from llmcore.runs.transcript import tool_message
from llmcore.tools.results import FailureKind, ToolResult, result_of

DEFAULT_KEY = "test-key"
DEFAULT_RESULT = "ok"
DEFAULT_RESULT_BYTES = 50_000
PASSED_ON = ("temperature", "top_p", "max_tokens", "seed", "parallel_tool_calls")
ANY_SCHEMA = {"type": "object"}

Context = Mapping[str, Any]


def call_of(context: Context, tools: Mapping[str, JSON], adapter: Adapter, origin: str) -> ModelCall:
    thinking = context.get("thinking")
    stop = context.get("stop") or ()
    response_format = context.get("response_format")
    return ModelCall(
        provider=Provider(
            slug="case",
            name="Case",
            adapter=adapter.name,
            base_url=origin + (urlsplit(adapter.default_base_url or "https://host/v1").path),
            api_key=Secret(context.get("api_key", DEFAULT_KEY)),
            total_timeout_s=20.0,
            max_attempts=1,
            allow_private_hosts=True,
        ),
        model=LanguageModel(
            name=context["model"],
            inline_think=context.get("inline_think"),
            supports_thinking=thinking is not None,
            supports_images=True,
        ),
        parameters=Parameters(
            stream=bool(context.get("stream")),
            thinking="medium" if thinking is True else "off" if thinking is False else thinking,
            stop=(stop,) if isinstance(stop, str) else tuple(stop),
            **{name: context[name] for name in PASSED_ON if name in context},
        ),
        tools=tuple(tool_of(tool, tools) for tool in context.get("tools") or ()),
        tool_choice=choice_of(context.get("tool_choice")),
        response_schema=ANY_SCHEMA if isinstance(response_format, str) else response_format,
    )


def choice_of(choice: JSON) -> str:
    if isinstance(choice, dict):
        function = choice.get("function")
        choice = function.get("name") if isinstance(function, dict) else choice.get("name")
    return choice or "auto"


def tool_of(tool: JSON, tools: Mapping[str, JSON]) -> ToolSpec:
    """A tool that a case names, or spells out."""
    spec = tool if isinstance(tool, dict) else tools.get(tool, {"name": tool})
    return ToolSpec(
        name=spec["name"], description=spec.get("description", ""), parameters=spec.get("parameters", ANY_SCHEMA)
    )


def messages_of(history: Sequence[Mapping[str, JSON]]) -> list[Message]:
    """The history of a case. Calls with a missing or doubled id get one of their own, and so do their results."""
    messages: list[Message] = []
    taken: set[str] = set()
    waiting: list[tuple[JSON, str]] = []
    names: dict[str, str] = {}
    for data in history:
        given = data.get("tool_calls") or ()
        calls = with_unique_ids([tool_call_of(call) for call in given], taken)
        taken.update(call.id for call in calls)
        if calls:
            waiting = [(item.get("id"), call.id) for item, call in zip(given, calls, strict=True)]
            names.update({call.id: call.name for call in calls})
        answered = answered_id(data.get("tool_call_id"), waiting) if data["role"] == "tool" else None
        messages.append(
            Message(
                role=data["role"],
                parts=tuple(parts_of(data)),
                tool_calls=calls,
                tool_call_id=answered,
                name=data.get("name") or names.get(answered or ""),
                is_error=bool(data.get("is_error")),
            )
        )
    return messages


def answered_id(given: JSON, waiting: list[tuple[JSON, str]]) -> str:
    """The id of the call that a result with the id `given` answers: the first one waiting under it."""
    for index, (sent, ours) in enumerate(waiting):
        if not given or sent == given:
            del waiting[index]
            return ours
    return given or ""


def parts_of(data: Mapping[str, JSON]) -> list[Part]:
    content = data.get("content")
    thinking = [Part(kind="thinking", text=data["thinking"])] if data.get("thinking") else []
    if isinstance(content, list):
        texts = [item if isinstance(item, str) else item.get("text", "") for item in content]
        return thinking + [Part(text=text) for text in texts]
    return thinking + ([Part(text=content)] if content else [])


def tool_call_of(data: Mapping[str, JSON]) -> ToolCall:
    arguments, raw = read_arguments(data.get("arguments"))
    return ToolCall(id=data.get("id") or "", name=data["name"], arguments=arguments, arguments_raw=raw)


def results_of(context: Context, response: ModelResponse) -> list[Message]:
    """The results of the response's calls, as a run would append them."""
    results: Sequence[JSON] = context.get("tool_results") or ()
    messages = []
    for index, call in enumerate(response.tool_calls):
        result = result_of(results[index] if index < len(results) else DEFAULT_RESULT)
        if not call.executable:
            result = ToolResult.failed(FailureKind.CUT_OFF, "This call was not executed.")
        limit = context.get("max_tool_result_chars") or DEFAULT_RESULT_BYTES
        result = result.bounded(max_bytes=limit, max_traced_bytes=limit)
        messages.append(tool_message(call, result.text, is_error=result.is_error))
    return messages


def clock_of(context: Context) -> datetime | None:
    return datetime.fromisoformat(context["clock"]) if context.get("clock") else None
