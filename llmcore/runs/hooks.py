"""What a site may hook into the loop to judge single calls. Hooks only tighten: none allows what policy forbids."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from llmcore.messages import ToolCall
from llmcore.tools.base import Tool, ToolContext
from llmcore.tools.results import ToolResult


class Judgment(StrEnum):
    """What a hook wants to happen."""

    PASS = "pass"
    DENY = "deny"  # before: the call doesn't run; after: its result is withheld. The model gets the reason.
    HALT = "halt"  # the run ends


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """A hook's judgment, with a reason for the model or the person reading."""

    judgment: Judgment = Judgment.PASS
    reason: str = ""


PASS = Verdict()


def deny(reason: str) -> Verdict:
    return Verdict(judgment=Judgment.DENY, reason=reason)


def halt(reason: str) -> Verdict:
    return Verdict(judgment=Judgment.HALT, reason=reason)


# `None` passes. A hook may be async; one that raises ends the run with `internal_error`, so a broken hook is no way in.
HookAnswer = Verdict | None | Awaitable[Verdict | None]
PreToolUse = Callable[[ToolCall, Tool, ToolContext], HookAnswer]
PostToolUse = Callable[[ToolCall, Tool, ToolContext, ToolResult], HookAnswer]


@dataclass(frozen=True, kw_only=True, slots=True)
class Hooks:
    """The hooks of a run, asked in this order. The first halt stops; else the first denial stands."""

    pre_tool_use: tuple[PreToolUse, ...] = ()
    post_tool_use: tuple[PostToolUse, ...] = ()

    async def before(self, call: ToolCall, tool: Tool, context: ToolContext) -> Verdict:
        verdict = PASS
        for hook in self.pre_tool_use:
            verdict = _stricter(verdict, await _answer(hook(call, tool, context)))
            if verdict.judgment is Judgment.HALT:
                break
        return verdict

    async def after(self, call: ToolCall, tool: Tool, context: ToolContext, result: ToolResult) -> Verdict:
        verdict = PASS
        for hook in self.post_tool_use:
            verdict = _stricter(verdict, await _answer(hook(call, tool, context, result)))
            if verdict.judgment is Judgment.HALT:
                break
        return verdict


async def _answer(given: HookAnswer) -> Verdict:
    verdict = await given if inspect.isawaitable(given) else given
    return PASS if verdict is None else verdict


def _stricter(first: Verdict, second: Verdict) -> Verdict:
    if second.judgment is Judgment.HALT or first.judgment is Judgment.PASS:
        return second
    return first
