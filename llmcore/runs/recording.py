"""Turns what happens in the loop into the steps of a trace. Without a trace nothing is kept, copied or timed."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from llmcore.actions.policy import Judged
from llmcore.actions.proposals import Proposal
from llmcore.configuration import Route
from llmcore.context.budget import WindowUse
from llmcore.messages import JSON, FinishReason, Message, ModelResponse, ToolCall, canonical_json
from llmcore.metering.client import Completion
from llmcore.providers.base import ModelCall, WireRequest
from llmcore.runs.compacting import Compacted
from llmcore.runs.earlier_steps import common_prefix, ends_with_compaction, open_calls, sent_last
from llmcore.runs.observing import CallObserver, SummaryObserver
from llmcore.tools.base import Tool
from llmcore.tools.results import FailureKind, ToolResult
from llmcore.trace import RunStep, RunTrace, StepKind, SummaryInWork, round_ms

PREVIEW_CHARS = 200
MAX_TRACEBACK_CHARS = 20_000


class Recorder:
    """Records the steps of one run, if it has a trace."""

    def __init__(self, trace: RunTrace | None, *, redact: Callable[[str], str] = str) -> None:
        self._trace = trace
        self._redact = redact
        self._sent: list[str] = sent_last(trace.steps) if trace else []
        self._compared = False
        self._compacted = trace is not None and ends_with_compaction(trace.steps)
        self._described: ModelCall | None = None
        self._description: dict[str, JSON] = {}
        self._covered_ms = 0.0

    @property
    def records(self) -> bool:
        """Whether there is a trace."""
        return self._trace is not None

    def now_ms(self) -> float:
        return self._trace.now_ms() if self._trace else 0.0

    async def committed(self) -> None:
        """All that was recorded is safely stored."""
        if self._trace:
            await self._trace.committed()

    def observer(self, *, round: int, request: RunStep | None) -> CallObserver | None:
        if self._trace is None or request is None:
            return None
        return CallObserver(
            trace=self._trace, round=round, sequence=request.sequence, provider=request.data["provider"]
        )

    def summary_observer(
        self, call: ModelCall, summarizer: str, messages: int, *, round: int
    ) -> SummaryObserver | None:
        """Of a call, which is no round's own, for a summary of so many messages."""
        if self._trace is None:
            return None
        summary = SummaryInWork(messages=messages, summarizer=summarizer, model=call.model.label or call.model.name)
        return SummaryObserver(trace=self._trace, round=round, provider=call.provider.slug, summary=summary)

    def assembled(
        self,
        call: ModelCall,
        wire: WireRequest,
        messages: Sequence[Message],
        repairs: list[str],
        *,
        estimate: int,
        round: int = 1,
    ) -> None:
        """A dry run's request of about `estimate` tokens, with the exact body."""
        if self._trace:
            data = self._request_data(call, wire, messages, repairs, estimate)
            data["body"] = self._trace.keep(wire.body.decode("utf-8"))
            self._trace.record(StepKind.ASSEMBLED, round=round, data=data)

    def request(
        self,
        call: ModelCall,
        wire: WireRequest,
        messages: Sequence[Message],
        *,
        round: int,
        repairs: list[str],
        estimate: int,
        last: bool,
    ) -> RunStep | None:
        """A request of about `estimate` tokens that is about to go out. `messages` only grows from one request to the
        next."""
        if self._trace is None:
            return None
        data = self._request_data(call, wire, messages, repairs, estimate)
        data["last"] = last
        if self._compacted:
            data["compacted"], self._compacted = True, False
        return self._trace.record(StepKind.REQUEST, round=round, data=data)

    def context(self, use: WindowUse, *, round: int) -> None:
        """Where the window goes with the request that was recorded last."""
        if self._trace:
            self._trace.record(StepKind.CONTEXT, round=round, data=use.to_json())

    def compaction(
        self, compacted: Compacted, *, before: WindowUse, after: WindowUse, round: int, started_ms: float
    ) -> None:
        """Old turns gave way to one message, in a call to the summarizer that began at `started_ms`."""
        if self._trace is None:
            return
        data: dict[str, JSON] = {
            **compacted.to_json(),
            "message": self._trace.keep_message(compacted.message),
            "record": self._trace.keep(compacted.record),
            "tokens_before": before.used,
            "tokens_after": after.used,
        }
        step = self._trace.record(StepKind.COMPACTION, round=round, data=data, started_ms=started_ms)
        for exchange in compacted.exchanges:
            self._trace.exchange(step.sequence, exchange)
        self._compacted = True

    def begin_anew(self) -> None:
        """The next request may differ from the one before it in any of its messages."""
        self._compared = False

    def response(
        self, call: ModelCall, completion: Completion, *, round: int, started_ms: float, following: Route | None = None
    ) -> None:
        """How a call ended. `following` is asked the same, since this one failed."""
        if self._trace is None:
            return
        response = completion.response
        data: dict[str, JSON] = {
            "message": self._trace.keep_message(response.message),
            "finish_reason": response.finish_reason.value if response.finish_reason else None,
            "finish_reason_raw": response.finish_reason_raw,
            "usage": response.usage.to_json() if response.usage else None,
            "cost": None if completion.cost is None else str(completion.cost),
            "prices": call.model.prices.to_json(),
            "first_token_ms": _rounded(completion.first_token_ms),
            "thinking_ms": _rounded(completion.thinking_ms),
            "text_chars": len(response.text),
            "thinking_chars": len(response.thinking),
            "calls": [{"id": c.id, "name": c.name, "problem": c.problem} for c in response.tool_calls],
            "attempts": completion.attempts,
            "error": response.error.to_json() if response.error else None,
            "refusal": response.refusal,
            "served_model": response.served_model,
            "response_id": response.response_id,
            "cancelled": response.cancelled,
            **({"permit_ms": round_ms(completion.requeued_ms)} if completion.requeued_ms else {}),
            **({"falls_back_to": following.name} if following else {}),
            **({"budgets": [crossing.to_json() for crossing in completion.crossings]} if completion.crossings else {}),
            **({"choice_ignored": True} if ignored_choice(call, response) else {}),
        }
        self._trace.record(StepKind.RESPONSE, round=round, data=data, started_ms=started_ms)

    def proposed(self, proposal: Proposal) -> None:
        """Actions that the run is about to wait for."""
        if self._trace is None:
            return
        for action in proposal.actions:
            described = {"action": action.action.to_json(), "why": action.why, "repeatable": action.repeatable}
            data = {
                "event": "proposed",
                "call_id": action.call.id,
                "name": action.call.name,
                "digest": proposal.digest,
                "key": action.key,
                "kind": action.action.kind.value,
                "action": self._trace.keep({**described, "arguments": action.call.arguments}),
                "rule": action.rule,
                "position": action.position,
                "calls": action.of,
            }
            self._trace.record(StepKind.ACTION, round=proposal.round, data=data)

    def validated(
        self, facts: Mapping[str, JSON], objections: Sequence[JSON], repair: Message | None, *, round: int
    ) -> None:
        """An answer was held to its schema: what of that is no content, and what is. `repair` tells the model of it."""
        if self._trace is None:
            return
        kept = self._trace.keep(list(objections)) if objections else None
        told = self._trace.keep_message(repair) if repair else None
        self._trace.record(StepKind.VALIDATION, round=round, data={**facts, "objections": kept, "repair": told})

    def tool_call(
        self, call: ToolCall, tool: Tool | None, *, judged: Judged | None = None, repeat: int, round: int
    ) -> None:
        if self._trace is None:
            return
        given = call.arguments_raw if call.arguments is None else call.arguments
        ruled = {"ruling": judged.ruling.value, "rule": judged.rule.name} if judged and judged.rule else {}
        data: dict[str, JSON] = {
            "call_id": call.id,
            "name": call.name,
            "arguments": self._trace.keep(given),
            "preview": preview(given if isinstance(given, str) else canonical_json(given)),
            "effect": tool.effect.value if tool else None,
            "group": tool.group if tool else None,
            "repeat": repeat,
            "problem": call.problem.value if call.problem else None,
            **ruled,
            **({"replaced": tool.replaced} if tool and tool.replaced else {}),
        }
        self._trace.record(StepKind.TOOL_CALL, round=round, data=data)

    def tool_result(self, done: FinishedCall, message: Message, *, round: int) -> None:
        if self._trace is None:
            return
        result = done.result
        artifacts = [asdict(artifact) for artifact in result.artifacts]
        data: dict[str, JSON] = {
            "call_id": done.call.id,
            "name": done.call.name,
            "message": self._trace.keep_message(message),
            "is_error": result.is_error,
            "error_kind": result.failure.value if result.failure else None,
            "preview": preview(result.text),
            "bytes": result.size,
            "full": self._kept(result.full),
            "artifacts": self._trace.keep(artifacts) if artifacts else None,
            "traceback": self._kept(result.traceback),
            "effect_unknown": result.effect_unknown,
            "wall_ms": self._not_yet_covered(done),
            **({"origin": result.origin.to_json()} if result.origin else {}),
        }
        self._trace.record(
            StepKind.TOOL_RESULT, round=round, data=data, started_ms=done.started_ms, ended_ms=done.ended_ms
        )

    def interrupted(self, results: Sequence[Message], *, round: int) -> None:
        """The results that stand for calls which an earlier segment of the run left open."""
        if self._trace is None:
            return
        open_ids = open_calls(self._trace.steps)
        for message in results:
            if message.tool_call_id in open_ids:
                now = self.now_ms()
                call = ToolCall(id=message.tool_call_id or "", name=message.name or "", arguments=None)
                result = ToolResult.failed(FailureKind.INTERRUPTED, message.text, effect_unknown=True)
                done = FinishedCall(call=call, result=result, started_ms=now, ended_ms=now)
                self.tool_result(done, message, round=round)

    def halted(self, reason: str, *, round: int) -> None:
        if self._trace:
            data = {"kind": "halted", "message": reason, "advice": "A hook of this site ended the run."}
            self._trace.record(StepKind.ERROR, round=round, data=data)

    def error(self, error: Exception, *, round: int) -> None:
        if self._trace is None:
            return
        text = self._redact("".join(traceback.format_exception(error)))[-MAX_TRACEBACK_CHARS:]
        data: dict[str, JSON] = {
            "kind": "internal_error",
            "message": self._redact(f"{type(error).__name__}: {error}"),
            "advice": "This is a fault of the program or its set-up, not of the model. The traceback shows where.",
            "traceback": self._trace.keep(text),
        }
        self._trace.record(StepKind.ERROR, round=round, data=data)

    def _request_data(
        self, call: ModelCall, wire: WireRequest, messages: Sequence[Message], repairs: list[str], estimate: int
    ) -> dict[str, JSON]:
        kept, added = self._difference(messages)
        return {
            **self._describe(call),
            "kept": kept,
            "added": added,
            "messages": kept + len(added),
            "method": wire.method,
            "url": wire.url,
            "headers": wire.masked_headers,
            "body_sha256": wire.sha256,
            "body_bytes": len(wire.body),
            "input_tokens_estimate": estimate,
            "repairs": repairs,
        }

    def _difference(self, messages: Sequence[Message]) -> tuple[int, list[str]]:
        """How many messages are the same as in the request before, and the digests of the rest."""
        assert self._trace is not None
        known = len(self._sent) if self._compared else 0
        digests = [self._trace.keep_message(message) for message in messages[known:]]
        if not self._compared:
            # The first request of this segment; the one before it, if any, is an earlier segment's.
            self._compared = True
            known = common_prefix(self._sent, digests)
            digests = digests[known:]
            del self._sent[known:]
        self._sent.extend(digests)
        return known, digests

    def _describe(self, call: ModelCall) -> dict[str, JSON]:
        """What is the same for all requests of one call; nearly all rounds have the same one."""
        assert self._trace is not None
        if call is not self._described:
            tools = [spec.to_json() for spec in call.tools]
            self._described = call
            self._description = {
                "tools": self._trace.keep(tools) if tools else None,
                "tool_names": [spec.name for spec in call.tools],
                "tool_choice": call.tool_choice,
                "parameters": call.parameters.to_json(),
                "provider": call.provider.slug,
                "adapter": call.provider.adapter,
                "model": call.model.name,
            }
            if call.response_schema is not None:
                self._description["response_schema"] = self._trace.keep(call.response_schema)
        return self._description

    def _kept(self, text: str | None) -> str | None:
        return self._trace.keep(text) if self._trace and text is not None else None

    def _not_yet_covered(self, done: FinishedCall) -> float:
        start = max(done.started_ms, self._covered_ms)
        self._covered_ms = max(done.ended_ms, self._covered_ms)
        return round_ms(max(done.ended_ms - start, 0.0))


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedCall:
    """A call with its result and when it ran."""

    call: ToolCall
    result: ToolResult
    started_ms: float
    ended_ms: float


def ignored_choice(call: ModelCall, response: ModelResponse) -> bool:
    """Whether a call was required and the answer came without any, as if that had not been said."""
    required = call.tools and call.tool_choice not in ("auto", "none")
    return bool(required) and response.finish_reason is FinishReason.STOP and not response.tool_calls


def preview(text: str) -> str:
    """On one line, at most 200 characters."""
    line = " ".join(text[: 2 * PREVIEW_CHARS].split())
    return line if len(line) <= PREVIEW_CHARS and len(text) <= 2 * PREVIEW_CHARS else f"{line[: PREVIEW_CHARS - 1]}…"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round_ms(value)
