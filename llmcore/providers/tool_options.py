"""The part of a request that offers tools, as OpenAI's wire formats have it."""

from __future__ import annotations

from collections.abc import Callable

from llmcore.messages import JSON, ToolSpec
from llmcore.providers.base import ModelCall


def tool_options(
    call: ModelCall, tool_json: Callable[[ToolSpec], JSON], tool_choice: Callable[[str], JSON]
) -> dict[str, JSON]:
    """The fields for the tools of `call`; without any where a model that has to do without a choice may call none."""
    choosable = call.model.supports_tool_choice
    if not call.tools or (call.tool_choice == "none" and not choosable):
        return {}
    return {
        "tools": [tool_json(tool) for tool in call.tools],
        "tool_choice": tool_choice(call.tool_choice) if choosable else None,
        "parallel_tool_calls": call.parameters.parallel_tool_calls,
    }
