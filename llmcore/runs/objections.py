"""What keeps a call from running whoever agrees to it, in words that help the model to make a better one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llmcore.messages import CallProblem, ToolCall
from llmcore.tools.arguments import explain_objections, explain_undecodable, objections, validator_for
from llmcore.tools.base import Tool
from llmcore.tools.results import FailureKind, ToolResult


@dataclass(kw_only=True, slots=True)
class Objections:
    """Judges calls by the tools that are `offered` in a run; `known` are all that the site has."""

    offered: Mapping[str, Tool]
    known: Mapping[str, Tool]
    _validators: dict[str, Any] = field(default_factory=dict)

    def to(self, call: ToolCall) -> ToolResult | None:
        """The error to give to the model, `None` where the call can run."""
        tool = self.offered.get(call.name)
        if tool is None or call.problem is CallProblem.NOT_OFFERED:
            return self._not_offered(call.name)
        if call.arguments is None or not call.executable:
            return ToolResult.failed(FailureKind.PARSE, explain_undecodable(call.arguments_raw))
        if found := objections(self._validator(tool), call.arguments):
            return ToolResult.failed(FailureKind.SCHEMA, explain_objections(found))
        return None

    def _not_offered(self, name: str) -> ToolResult:
        names = ", ".join(sorted(self.offered)) or "none"
        if name in self.known:
            text = f"Not run: the tool {name} is not offered in this run. Tools you can call: {names}."
            return ToolResult.failed(FailureKind.NOT_OFFERED, text)
        text = f"Not run: there is no tool called {name[:100]!r}. Tools you can call: {names}."
        return ToolResult.failed(FailureKind.UNKNOWN_TOOL, text)

    def _validator(self, tool: Tool) -> Any:
        if tool.name not in self._validators:
            self._validators[tool.name] = validator_for(tool.parameters)
        return self._validators[tool.name]
