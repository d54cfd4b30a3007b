"""Answers the tool calls of a round: decides for each whether it runs, runs it, and gives it exactly one result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from llmcore.configuration import Limits
from llmcore.messages import CallProblem, Message, ToolCall
from llmcore.runs.hooks import Hooks, Judgment
from llmcore.runs.objections import Objections
from llmcore.runs.recording import FinishedCall, Recorder
from llmcore.runs.review import Review, Reviewed
from llmcore.runs.state import identity_of
from llmcore.runs.transcript import tool_message
from llmcore.tools.base import Effect, Tool
from llmcore.tools.execute import ToolRunner
from llmcore.tools.results import FailureKind, ToolResult

NOT_RUN: dict[FailureKind, str] = {
    FailureKind.CUT_OFF: "Not run: the answer that asked for this call was cut off, so the call may be incomplete.",
    FailureKind.ROUND_LIMIT: "Not run: the run has reached its limit of rounds.",
    FailureKind.CANCELLED: "Not run: the run was cancelled.",
    FailureKind.HALTED: "Not run: the run was halted.",
    FailureKind.NEEDS_APPROVAL: "Not run: nobody approved this call.",
}

BROKEN_BEFORE = "Not run: a hook of this site failed."
BROKEN_AFTER = "A hook of this site failed."


@dataclass(kw_only=True, slots=True)
class CallRunner:
    """Answers tool calls for one run.

    `objections` says what keeps a call from running, by the tools that the run may call. `counts` says how often each
    identical call was made. `halted` is the reason of the hook that halted the run, if one did, `broken` what a hook
    raised that failed.
    """

    objections: Objections
    runner: ToolRunner
    recorder: Recorder
    limits: Limits
    hooks: Hooks
    counts: dict[str, int]
    cancel: asyncio.Event | None = None
    max_identical_calls: int = 3
    halted: str | None = None
    broken: Exception | None = None
    _review: Review = field(default_factory=Review)

    async def answer(
        self,
        calls: Sequence[ToolCall],
        *,
        round: int,
        emit: Callable[[Message], None],
        review: Review | None = None,
        refusal: FailureKind | None = None,
    ) -> None:
        """Hand the result of each call to `emit`, in the order of the calls.

        `review` says which of them may run; what it doesn't know of doesn't. With `refusal` none runs. A hook that
        fails is raised when each call has its result: what a tool has done stays on record.
        """
        self._review = review or Review()
        for batch in self._batches(calls):
            if len(batch) == 1:
                self._finish(await self._answer(batch[0], round, refusal), round, emit)
            else:
                await self._answer_together(batch, round, emit, refusal)
        if self.broken is not None:
            raise self.broken

    def _batches(self, calls: Sequence[ToolCall]) -> Iterator[list[ToolCall]]:
        """Neighboring read-only calls together, every other call alone: a write happens between its neighbors."""
        for read_only, group in groupby(calls, self._is_read_only):
            neighbors = list(group)
            yield from [neighbors] if read_only else ([call] for call in neighbors)

    def _is_read_only(self, call: ToolCall) -> bool:
        tool = self.objections.offered.get(call.name)
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
        reviewed = self._review.of(call)
        known = self.objections.known.get(call.name)
        self.recorder.tool_call(call, known, judged=reviewed.judged, repeat=repeat, round=round)
        started_ms = self.recorder.now_ms()
        result = self._refused(call, refusal) or self._not_runnable(call, reviewed)
        if result is None:
            result = await self._run(call, reviewed, round)
        result = result.bounded(
            max_bytes=self.limits.max_tool_result_bytes,
            max_traced_bytes=self.limits.max_traced_result_bytes,
            note=self._repeat_note(call, repeat),
        )
        return FinishedCall(call=call, result=result, started_ms=started_ms, ended_ms=self.recorder.now_ms())

    def _not_runnable(self, call: ToolCall, reviewed: Reviewed) -> ToolResult | None:
        if result := self.objections.to(call) or reviewed.refusal:
            return result
        if not reviewed.cleared:
            return ToolResult.failed(FailureKind.NEEDS_APPROVAL, NOT_RUN[FailureKind.NEEDS_APPROVAL])
        return None

    async def _run(self, call: ToolCall, reviewed: Reviewed, round: int) -> ToolResult:
        tool, context = self.objections.offered[call.name], self.runner.context
        try:
            verdict = await self.hooks.before(call, tool, context)
        except Exception as error:
            self.broken = self.broken or error
            return ToolResult.failed(FailureKind.HALTED, BROKEN_BEFORE)
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
        result = await self.runner.run(tool, call.arguments or {}, approved=reviewed.approved)
        return await self._judged(call, tool, result, round)

    async def _judged(self, call: ToolCall, tool: Tool, result: ToolResult, round: int) -> ToolResult:
        try:
            verdict = await self.hooks.after(call, tool, self.runner.context, result)
        except Exception as error:
            self.broken = self.broken or error
            return withheld(result, BROKEN_AFTER)
        if verdict.judgment is Judgment.HALT:
            self._halt(verdict.reason, round)
        if verdict.judgment is Judgment.DENY:
            return withheld(result, verdict.reason)
        return result

    def _halt(self, reason: str, round: int) -> None:
        if self.halted is None:
            self.halted = reason
            self.recorder.halted(reason, round=round)

    def _refused(self, call: ToolCall, refusal: FailureKind | None) -> ToolResult | None:
        """Why no call may run any more."""
        if self.cancel is not None and self.cancel.is_set():
            refusal = FailureKind.CANCELLED
        elif self.halted is not None or self.broken is not None:
            refusal = FailureKind.HALTED
        elif call.problem is CallProblem.CUT_OFF:
            refusal = FailureKind.CUT_OFF
        return None if refusal is None else ToolResult.failed(refusal, NOT_RUN[refusal])

    def _repeat_note(self, call: ToolCall, repeat: int) -> str:
        if repeat < self.max_identical_calls:
            return ""
        return (
            f"Note: this is call number {repeat} of {call.name[:100]} with the very same arguments in this run. "
            "Use the results you have, change the arguments, or answer without this tool."
        )


def withheld(result: ToolResult, reason: str) -> ToolResult:
    """What the model gets in place of `result`, which the trace keeps."""
    text = f"The tool ran, but its result is withheld. {reason}".strip()
    return replace(result, text=text, full=result.text, failure=FailureKind.DENIED)
