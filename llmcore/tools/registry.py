"""The tools of a site: functions and classes marked with `@tool`, found in each installed app's `llm_tools.py`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import wraps
from types import MappingProxyType
from typing import Any, TypeVar, get_args

from llmcore.errors import ConfigurationError
from llmcore.messages import JSON
from llmcore.tools.base import Action, ApprovalRule, Effect, Tool, ToolContext
from llmcore.tools.conversion import Converter, as_is, converter_of
from llmcore.tools.docstrings import read_docstring
from llmcore.tools.schema import check_parameters, hints_of, schema_of_function

# The strictest rule among the wires: OpenAI's.
NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")

Marked = TypeVar("Marked", bound=Callable[..., Any])


class ToolRegistry:
    """Tools by name. Two tools of one name can't be told apart by a model, so the second one is refused."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self._places: dict[str, str] = {}

    def all_tools(self) -> Mapping[str, Tool]:
        return MappingProxyType(self._tools)

    def register(self, tool: Tool, *, place: str) -> Tool:
        """Add `tool`, which is defined at `place`."""
        if not NAME.match(tool.name):
            raise ConfigurationError(f"{tool.name!r} ({place}) is no tool name: letters, digits, _ and -, at most 64")
        if tool.name in self._tools:
            raise ConfigurationError(f"two tools are called {tool.name!r}: {self._places[tool.name]} and {place}")
        if tool.timeout_s <= 0:
            raise ConfigurationError(f"the tool {tool.name!r} ({place}) needs a timeout above 0 seconds")
        check_parameters(tool.parameters, f"the tool {tool.name!r} ({place})")
        self._tools[tool.name] = tool
        self._places[tool.name] = place
        return tool

    def tool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: dict[str, JSON] | None = None,
        group: str = "general",
        effect: Effect = Effect.READ_ONLY,
        requires_approval: bool | ApprovalRule = False,
        timeout_s: float = 30.0,
        permission: str = "",
        describe_action: Callable[[Mapping[str, JSON], ToolContext], Action] | None = None,
        off_because: Callable[[ToolContext], str | None] | None = None,
    ) -> Callable[[Marked], Marked]:
        """Register a function, or a class whose instances are callable, as a tool; it stays what it was.

        Name, description and schema come from the function unless given. With `parameters` given the arguments are
        handed over as plain JSON; without, they have the types of the hints.
        """

        def mark(marked: Marked) -> Marked:
            function = _function_of(marked)
            context_parameter = _context_parameter(function)
            text = description or read_docstring(inspect.getdoc(marked)).text
            if not text:
                raise ConfigurationError(
                    f"{_place_of(marked)} needs a docstring: it tells a model what the tool is for"
                )
            skip = {context_parameter} if context_parameter else set()
            made = Tool(
                name=name or _name_of(marked),
                description=text,
                parameters=schema_of_function(function, skip=skip) if parameters is None else parameters,
                run=_converting(function, skip) if parameters is None else function,
                group=group,
                effect=effect,
                requires_approval=requires_approval,
                timeout_s=timeout_s,
                permission=permission,
                context_parameter=context_parameter,
                describe_action=describe_action,
                off_because=off_because,
            )
            self.register(made, place=_place_of(marked))
            return marked

        return mark


def _function_of(marked: Callable[..., Any]) -> Callable[..., Any]:
    if not inspect.isclass(marked):
        return marked
    instance: Any = marked()
    # A bound method, so that its signature has no `self`.
    call: Callable[..., Any] = instance.__call__
    return call


def _name_of(marked: Callable[..., Any]) -> str:
    name = marked.__name__
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower() if inspect.isclass(marked) else name


def _place_of(marked: Callable[..., Any]) -> str:
    place = f"{marked.__module__}.{marked.__qualname__}"
    code = getattr(marked, "__code__", None)
    return f"{place} (line {code.co_firstlineno})" if code else place


def _context_parameter(function: Callable[..., Any]) -> str | None:
    for name, hint in hints_of(function).items():
        if name != "return" and (hint is ToolContext or ToolContext in get_args(hint)):
            return name
    return None


def _converting(function: Callable[..., Any], skip: set[str]) -> Callable[..., Any]:
    """`function`, called with JSON; itself where no parameter needs more than that."""
    hints = hints_of(function)
    converters: dict[str, Converter] = {
        name: convert
        for name in inspect.signature(function).parameters
        if name not in skip and (convert := converter_of(hints[name])) is not as_is
    }
    if not converters:
        return function

    def converted(arguments: dict[str, Any]) -> dict[str, Any]:
        return {n: converters[n](v, f"/{n}") if n in converters else v for n, v in arguments.items()}

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def call_async(**arguments: Any) -> Any:
            return await function(**converted(arguments))

        return call_async

    @wraps(function)
    def call(**arguments: Any) -> Any:
        return function(**converted(arguments))

    return call


site_tools = ToolRegistry()
tool = site_tools.tool
all_tools = site_tools.all_tools
