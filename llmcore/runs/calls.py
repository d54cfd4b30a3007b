"""Answers the tool calls of a round: decides for each whether it runs, runs it, and gives it exactly one result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

from llmcore.configuration import Limits
from llmcore.errors import ToolError
from llmcore.messages import CallProblem, Message, ToolCall
from llmcore.runs.hooks import Hooks, Judgment
from llmcore.runs.recording import FinishedCall, Recorder
from llmcore.runs.state import identity_of
from llmcore.runs.transcript import tool_message
from llmcore.tools.arguments import explain_objections, explain_undecodable, objections, validator_for
from llmcore.tools.base import Effect, Tool
from llmcore.tools.execute import ToolRunner
from llmcore.tools.results import FailureKind, ToolResult, clean

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

NOT_RUN: dict[FailureKind, str] = {
    FailureKind.CUT_OFF: "Not run: the answer that asked for this call was cut off, so the call may be incomplete.",
    FailureKind.ROUND_LIMIT: "Not run: the run has reached its limit of rounds.",
    FailureKind.CANCELLED: "Not run: the run was cancelled.",
    FailureKind.HALTED: "Not run: the run was halted.",
}


@dataclass(kw_only=True, slots=True)
class CallRunner:
    """Answers tool calls for one run.

    `offered` are the tools that the run may call, `known` all that the site has. `counts` says how often each
    identical call was made. `halted` is the reason of the hook that halted the run, if one did.
    """

    offered: Mapping[str, Tool]
    known: Mapping[str, Tool]
    runner: ToolRunner
    recorder: Recorder
    limits: Limits
    hooks: Hooks
    counts: dict[str, int]
    cancel: asyncio.Event | None = None
    max_identical_calls: int = 3
    halted: str | None = None
    _validators: dict[str, Draft202012Validator] = field(default_factory=dict)

    async def answer(
        self,
        calls: Sequence[ToolCall],
        *,
        round: int,
        emit: Callable[[Message], None],
        refusal: FailureKind | None = None,
    ) -> None:
        """Hand the result of each call to `emit`, in the order of the calls. With `refusal` none of them runs."""
        for batch in self._batches(calls):
            if len(batch) == 1:
                self._finish(await self._answer(batch[0], round, refusal), round, emit)
            else:
                await self._answer_together(batch, round, emit, refusal)

    def _batches(self, calls: Sequence[ToolCall]) -> Iterator[list[ToolCall]]:
        """Neighboring read-only calls together, every other call alone: a write happens between its neighbors."""
        for read_only, group in groupby(calls, self._is_read_only):
            neighbors = list(group)
            yield from [neighbors] if read_only else ([call] for call in neighbors)

    def _is_read_only(self, call: ToolCall) -> bool:
        tool = self.offered.get(call.name)
        return tool is not None and tool.effect is Effect.READ_ONLY

    async def _answer_together(
        self, batch: list[ToolCall], round: int, emit: Callable[[Message], None], refusal: FailureKind | None
    ) -> None:
        places = asyncio.Semaphore(max(self.limits.max_parallel_tools, 1))

        async def bounded(call: ToolCall) -> FinishedCall:
            async with places:
                return await self._answer(call, round, refusal)

        tasks = [asyncio.create_task(bounded(call)) for call in batch]
        try:
            for task in tasks:
                self._finish(await task, round, emit)
        finally:
            # All are done, unless the run itself is being torn down.
            for task in tasks:
                task.cancel()

    def _finish(self, done: FinishedCall, round: int, emit: Callable[[Message], None]) -> None:
        message = tool_message(done.call, done.result.text, is_error=done.result.is_error)
        self.recorder.tool_result(done, message, round=round)
        emit(message)

    async def _answer(self, call: ToolCall, round: int, refusal: FailureKind | None) -> FinishedCall:
        identity = identity_of(call)
        repeat = self.counts[identity] = self.counts.get(identity, 0) + 1
        self.recorder.tool_call(call, self.known.get(call.name), repeat=repeat, round=round)
        started_ms = self.recorder.now_ms()
        result = self._refused(call, refusal) or self._objection(call) or await self._run(call, round)
        result = result.bounded(
            max_bytes=self.limits.max_tool_result_bytes,
            max_traced_bytes=self.limits.max_traced_result_bytes,
            note=self._repeat_note(call, repeat),
        )
        return FinishedCall(call=call, result=result, started_ms=started_ms, ended_ms=self.recorder.now_ms())

    async def _run(self, call: ToolCall, round: int) -> ToolResult:
        tool, context = self.offered[call.name], self.runner.context
        verdict = await self.hooks.before(call, tool, context)
        if verdict.judgment is Judgment.HALT:
            self._halt(verdict.reason, round)
            return ToolResult.failed(FailureKind.HALTED, f"{NOT_RUN[FailureKind.HALTED]} {verdict.reason}".strip())
        if verdict.judgment is Judgment.DENY:
            return ToolResult.failed(FailureKind.DENIED, f"Not run: this call was denied. {verdict.reason}".strip())
        if tool.effect is Effect.NON_IDEMPOTENT_WRITE:
            # Whoever goes on with this run after a crash must know that the write may have happened.
            await self.recorder.committed()
        # Waiting for hooks and storage took time, in which the run may have been stopped.
        if refused := self._refused(call, None):
            return refused
        result = await self.runner.run(tool, call.arguments or {})
        return await self._judged(call, tool, result, round)

    async def _judged(self, call: ToolCall, tool: Tool, result: ToolResult, round: int) -> ToolResult:
        verdict = await self.hooks.after(call, tool, self.runner.context, result)
        if verdict.judgment is Judgment.HALT:
            self._halt(verdict.reason, round)
        if verdict.judgment is Judgment.DENY:
            text = f"The tool ran, but its result is withheld. {verdict.reason}".strip()
            return replace(result, text=text, full=result.text, failure=FailureKind.DENIED)
        return result

    def _halt(self, reason: str, round: int) -> None:
        if self.halted is None:
            self.halted = reason
            self.recorder.halted(reason, round=round)

    def _refused(self, call: ToolCall, refusal: FailureKind | None) -> ToolResult | None:
        """Why no call may run any more."""
        if self.cancel is not None and self.cancel.is_set():
            refusal = FailureKind.CANCELLED
        elif self.halted is not None:
            refusal = FailureKind.HALTED
        elif call.problem is CallProblem.CUT_OFF:
            refusal = FailureKind.CUT_OFF
        return None if refusal is None else ToolResult.failed(refusal, NOT_RUN[refusal])

    def _objection(self, call: ToolCall) -> ToolResult | None:
        """What keeps this call from running, in words that help the model to make a better one."""
        tool = self.offered.get(call.name)
        if tool is None:
            return self._not_offered(call.name)
        if call.problem is CallProblem.NOT_OFFERED:
            return self._not_offered(call.name)
        if tool.requires_approval is True:
            return self._unapproved(f"Each call of {tool.name} needs approval.")
        if call.arguments is None or not call.executable:
            return ToolResult.failed(FailureKind.PARSE, explain_undecodable(call.arguments_raw))
        if found := objections(self._validator(tool), call.arguments):
            return ToolResult.failed(FailureKind.SCHEMA, explain_objections(found))
        try:
            reason = tool.needs_approval(call.arguments, self.runner.context)
        except ToolError as error:
            return ToolResult.failed(FailureKind.TOOL_ERROR, clean(str(error)))
        return self._unapproved(reason) if reason else None

    def _unapproved(self, reason: str) -> ToolResult:
        text = f"Not run: {reason} This run can't ask a person."
        return ToolResult.failed(FailureKind.NEEDS_APPROVAL, text)

    def _not_offered(self, name: str) -> ToolResult:
        names = ", ".join(sorted(self.offered)) or "none"
        if name in self.known:
            text = f"Not run: the tool {name} is not offered in this run. Tools you can call: {names}."
            return ToolResult.failed(FailureKind.NOT_OFFERED, text)
        text = f"Not run: there is no tool called {name[:100]!r}. Tools you can call: {names}."
        return ToolResult.failed(FailureKind.UNKNOWN_TOOL, text)

    def _validator(self, tool: Tool) -> Draft202012Validator:
        if tool.name not in self._validators:
            self._validators[tool.name] = validator_for(tool.parameters)
        return self._validators[tool.name]

    def _repeat_note(self, call: ToolCall, repeat: int) -> str:
        if repeat < self.max_identical_calls:
            return ""
        return (
            f"Note: this is call number {repeat} of {call.name[:100]} with the very same arguments in this run. "
            "Use the results you have, change the arguments, or answer without this tool."
        )
