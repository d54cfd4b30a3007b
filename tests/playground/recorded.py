"""Runs as rows without a worker: recorded by the loop's own recorder on a clock that the test turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from django.db.models import F
from django.utils import timezone

from llmcore.actions.proposals import Proposal, ProposedAction
from llmcore.configuration import LanguageModel, Parameters, Provider, Route, Summarizer
from llmcore.context.account import Account
from llmcore.context.compaction import Compaction, marker_message, summary_message
from llmcore.context.summary import Problem
from llmcore.errors import ErrorKind, ProviderError
from llmcore.messages import (
    JSON,
    Delta,
    FinishReason,
    Message,
    ModelResponse,
    Part,
    ToolCall,
    ToolSpec,
)
from llmcore.metering.client import Completion
from llmcore.permits.base import Place
from llmcore.prompts.assembly import Segment, Source
from llmcore.providers.base import ModelCall, WireRequest
from llmcore.runs.answer_checks import record_check
from llmcore.runs.compacting import Compacted
from llmcore.runs.outcome import STATUS_OF, EndReason, RunStatus
from llmcore.runs.recording import CallObserver, FinishedCall, Recorder
from llmcore.structured.expected import Expected
from llmcore.structured.response_schema import ResponseSchema
from llmcore.tools.base import Action
from llmcore.tools.results import FailureKind, ToolResult
from llmcore.trace import RunStep, RunTrace, WireExchange
from llmcore.usage import Prices, Usage
from playground.approvals import write_proposed
from playground.models import Run, RunPartial
from playground.rows import content_row, exchange_row, step_row

PRICES = Prices(input=Decimal("0.25"), cache_read=Decimal("0.025"), output=Decimal("2"))
PROVIDER = Provider(slug="demo", name="Demo model", adapter="openai_compat", base_url="http://127.0.0.1:1/v1")
MODEL = LanguageModel(name="demo-1", context_window=16_384, prices=PRICES)
USAGE = Usage(
    input_tokens=1000,
    output_tokens=100,
    total_tokens=1100,
    cache_read_input_tokens=600,
    reasoning_output_tokens=40,
    raw={"prompt_tokens": 1000},
)
TOOLS = (
    ToolSpec(name="look_up", description="Look up an order.", parameters={"type": "object", "properties": {}}),
    ToolSpec(name="refund", description="Refund an order.", parameters={"type": "object", "properties": {}}),
)


class RecordedRun:
    """A run that is being recorded. `wait` turns its clock; nothing else takes time."""

    def __init__(self, user: Any = None, *, system: str = "You help.", prompt: str = "Hello?", **columns: Any) -> None:
        self.messages = [Message.of("system", system), Message.of("user", prompt)]
        created = timezone.now()
        self.run = Run.objects.create(
            **{
                "user": user,
                "configuration_name": "Support",
                "model_name": MODEL.name,
                "title": "Where is my order?",
                "prompt": prompt,
                "request": {"configuration": "support", "prompt": prompt},
                "status": RunStatus.RUNNING,
                "queued_at": created,
                "started_at": created,
                "queue_ms": 0.0,
                "max_rounds": 5,
                "plan": self._plan(),
                **columns,
            }
        )
        self._now_s = 0.0
        self._round = 0
        self._trace = RunTrace(self, clock=lambda: self._now_s)
        self._recorder = Recorder(self._trace)
        self._call = ModelCall(
            provider=PROVIDER, model=MODEL, parameters=Parameters(temperature=0.5), tools=TOOLS, tool_choice="auto"
        )
        self._account = Account(MODEL, margin_percent=10.0)
        self._request_ms = 0.0
        self._request_step: RunStep | None = None
        self._request_messages = 0

    # --- what the loop does ---

    def wait(self, ms: float) -> None:
        self._now_s += ms / 1000

    def request(
        self,
        *,
        last: bool = False,
        body: bytes = b'{"model": "demo-1"}',
        headers: Mapping[str, str] | None = None,
    ) -> int:
        """A model call begins; its sequence."""
        self._round += 1
        self._request_ms = self._trace.now_ms()
        wire = WireRequest(
            method="POST", url="http://127.0.0.1:1/v1/chat/completions", headers=headers or {}, body=body
        )
        self._account.take(self.messages, TOOLS)
        step = self._recorder.request(
            self._call,
            wire,
            self.messages,
            round=self._round,
            repairs=[],
            estimate=self._account.estimate,
            last=last,
        )
        assert step is not None
        self._request_step = step
        Run.objects.filter(pk=self.run.pk).update(rounds=self._round)
        return step.sequence

    def assembled(self, body: bytes = b'{"model": "demo-1"}') -> int:
        wire = WireRequest(method="POST", url="http://127.0.0.1:1/v1/chat/completions", headers={}, body=body)
        self._account.take(self.messages, TOOLS)
        self._recorder.assembled(self._call, wire, self.messages, [], estimate=self._account.estimate)
        return self._trace.steps[-1].sequence

    def context(self) -> None:
        """Where the window goes with the request. Runs from before this was recorded have no such step."""
        self._recorder.context(self._account.use(Parameters(max_tokens=1_000)), round=self._round)

    def response(
        self,
        text: str = "",
        *,
        thinking: str = "",
        calls: Sequence[ToolCall] = (),
        usage: Usage | None = USAGE,
        error: ProviderError | None = None,
        finish_reason: FinishReason | None = FinishReason.STOP,
        first_token_ms: float | None = 100.0,
        attempts: int = 1,
        **changes: Any,
    ) -> None:
        """The call that was begun ends."""
        parts = [Part(kind="thinking", text=thinking)] if thinking else []
        parts += [Part(text=text)] if text else []
        message = Message(role="assistant", parts=tuple(parts), tool_calls=tuple(calls))
        response = ModelResponse(message=message, finish_reason=finish_reason, usage=usage, error=error, **changes)
        cost = None if error else PRICES.cost(usage)
        self._account.report(usage.input_tokens if usage else None)
        completion = Completion(
            response=response, attempts=attempts, first_token_ms=first_token_ms, thinking_ms=20.0, cost=cost
        )
        self._recorder.response(self._call, completion, round=self._round, started_ms=self._request_ms)
        self.messages.append(message)

    def checked(self, schema: ResponseSchema, answer: str) -> None:
        """The answer is held to a schema; there is no repair."""
        expected = Expected(schema=schema)
        check = expected.check(answer)
        record_check(self._recorder, expected, check, attempt=1, native=True, repair=None, round=self._round)

    def permit(self, *, took_ms: float, position: int = 1, waiting: int = 1, granted: bool = True) -> None:
        """The call that was begun waited so long for its permit, from this place in line."""
        self.wait(took_ms)
        place = Place(position=position, waiting=waiting)
        self._observer().waited(place, took_ms, attempt=1, granted=granted)
        self._request_ms = self._trace.now_ms()

    def place(self, position: int, waiting: int, **more: bool) -> None:
        """Where the call that was begun stands in line now."""
        place = {"provider": PROVIDER.slug, "position": position, "waiting": waiting, **more}
        RunPartial.objects.update_or_create(run=self.run, defaults={"round": self._round, "waiting": place})
        self._revise()

    def compaction(self, text: str = "Order 1 is on its way.", *, problem: Problem | None = None) -> None:
        """The turns so far give way to a summary of them, which the next round is asked with."""
        found = Compaction(folded=((2, len(self.messages)),), at=2)
        response = ModelResponse(message=Message.of("assistant", text), finish_reason=FinishReason.STOP, usage=USAGE)
        compacted = Compacted(
            compaction=found,
            message=summary_message(text) if problem is None else marker_message(()),
            summarizer=Summarizer(name="Summaries", route=Route(provider=PROVIDER, model=MODEL)),
            call=self._call,
            record="Call of look_up: {}",
            completion=Completion(response=response, cost=PRICES.cost(USAGE)),
            problem=problem,
        )
        before = self._account.use(Parameters())
        self.messages = found.apply(self.messages, compacted.message)
        self._recorder.begin_anew()
        self._account.begin_anew(changed_from=2)
        self._account.take(self.messages, TOOLS)
        after = self._account.use(Parameters())
        now = self._trace.now_ms()
        self._recorder.compaction(compacted, before=before, after=after, round=self._round + 1, started_ms=now)

    def retry(self, error: ProviderError, attempt: int = 1) -> None:
        self._observer().retry(attempt, error, 0.5)

    def tool_call(self, call: ToolCall, *, repeat: int = 1) -> int:
        """A tool starts; its sequence."""
        self._recorder.tool_call(call, None, judged=None, repeat=repeat, round=self._round)
        return self._trace.steps[-1].sequence

    def tool_result(self, call: ToolCall, result: ToolResult | str = "order 1", *, took_ms: float = 10.0) -> None:
        """The tool ends, having taken `took_ms`."""
        self.wait(took_ms)
        given = result if isinstance(result, ToolResult) else ToolResult(text=result, size=len(result.encode()))
        message = Message(
            role="tool", parts=(Part(text=given.text),), tool_call_id=call.id, name=call.name, is_error=given.is_error
        )
        now = self._trace.now_ms()
        done = FinishedCall(call=call, result=given, started_ms=now - took_ms, ended_ms=now)
        self._recorder.tool_result(done, message, round=self._round)
        self.messages.append(message)

    def propose(self, call: ToolCall, action: Action) -> None:
        """The turn waits for a decision about its call."""
        proposed = ProposedAction(call=call, action=action, why="It needs approval.", rule="", position=1, of=1)
        proposal = Proposal(round=self._round, calls=(call,), actions=(proposed,))
        self._recorder.proposed(proposal)
        now = timezone.now()
        write_proposed(run_id=self.run.pk, proposal=proposal, now=now)
        self._revise(status=RunStatus.AWAITING_APPROVAL, suspended_at=now, lease_until=None, worker="")

    def round(self, *, tool: str = "look_up", result: ToolResult | str = "order 1", text: str = "") -> None:
        """A whole round: a model call that asks for one tool, and its result."""
        self.request()
        self.wait(200)
        call = ToolCall(id=f"call-{self._round}", name=tool, arguments={"n": self._round})
        self.response(text, calls=[call], finish_reason=FinishReason.TOOL_CALLS)
        self.tool_call(call)
        self.tool_result(call, result)

    def answer(self, text: str) -> None:
        """The last round."""
        self.request()
        self.wait(200)
        self.response(text)

    def error(self, error: Exception) -> None:
        self._recorder.error(error, round=self._round)

    def partial(self, **parts: str) -> None:
        """What is being streamed now."""
        RunPartial.objects.update_or_create(run=self.run, defaults={"round": self._round, **parts})
        self._revise()

    def end(self, reason: EndReason = EndReason.COMPLETED, **columns: Any) -> Run:
        """The run ends; its row as it is then."""
        RunPartial.objects.filter(run=self.run).delete()
        wall_ms = self._trace.now_ms()
        self._revise(
            status=STATUS_OF[reason],
            reason=reason,
            ended_at=timezone.now(),
            **{
                "wall_ms": wall_ms,
                "model_ms": wall_ms / 2,
                "tool_ms": wall_ms / 4,
                "overhead_ms": wall_ms / 4,
                **columns,
            },
        )
        self.run.refresh_from_db()
        return self.run

    # --- a trace's listener ---

    def step(self, step: RunStep, contents: Mapping[str, JSON]) -> None:
        self.run.contents.bulk_create(
            [content_row(self.run.pk, digest, value) for digest, value in contents.items()], ignore_conflicts=True
        )
        step_row(self.run.pk, step, dict(step.data)).save()
        self._revise(last_sequence=step.sequence)

    def delta(self, round: int, delta: Delta) -> None: ...

    def exchange(self, sequence: int, exchange: WireExchange) -> None:
        exchange_row(self.run.pk, sequence, exchange).save()

    async def committed(self) -> None: ...

    def _observer(self) -> CallObserver:
        observer = self._recorder.observer(round=self._round, request=self._request_step)
        assert observer is not None
        return observer

    def _revise(self, **columns: Any) -> None:
        Run.objects.filter(pk=self.run.pk).update(revision=F("revision") + 1, **columns)

    def _plan(self) -> dict[str, JSON]:
        system, user = self.messages
        return {
            "configuration": {
                "name": "Support",
                "provider": {"slug": PROVIDER.slug, "name": PROVIDER.name},
                "model": {"name": MODEL.name, "context_window": MODEL.context_window},
            },
            "state": {"messages": [system.digest, user.digest], "parameters": {"temperature": 0.5}, "limits": {}},
            "gate": {
                "offered": ["look_up", "refund"],
                "left_out": [
                    {"name": "format_disk", "reason": "disabled", "detail": "the tool is disabled on this site"}
                ],
                "warnings": [],
            },
            "segments": [
                segment(Source.CONFIG, "support", "Configuration prompt", 0, len(system.text)),
                segment(Source.USER, "message-1", "User prompt", 1, len(user.text)),
            ],
            "dropped": [],
            "fingerprint": "f" * 64,
        }


def segment(source: Source, source_id: str, label: str, message: int, end: int) -> dict[str, Any]:
    return Segment(
        source=source, source_id=source_id, label=label, message=message, part=0, start=0, end=end, tokens=3
    ).to_json()


def lookup(number: int = 1, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"call-{number}", name="look_up", arguments=arguments or {"n": number})


def provider_error(kind: ErrorKind = ErrorKind.RATE_LIMIT, message: str = "slow down") -> ProviderError:
    return ProviderError(kind=kind, message=message, status=429)


def finished_run(user: Any = None, *, rounds: int = 2, answer: str = "It is on its way.", **columns: Any) -> Run:
    """A run of `rounds` rounds that call a tool, and one that answers."""
    recorded = RecordedRun(user)
    for _ in range(rounds):
        recorded.round()
    recorded.answer(answer)
    calls = rounds + 1
    return recorded.end(
        **{
            "answer": answer,
            "rounds": calls,
            "tool_calls": rounds,
            "input_tokens": 1000 * calls,
            "output_tokens": 100 * calls,
            "cache_read_input_tokens": 600 * calls,
            "reasoning_output_tokens": 40 * calls,
            "context_peak": 1000,
            "cost": Decimal("0.0003") * calls,
            **columns,
        }
    )


class BulkRun(RecordedRun):
    """A recorded run whose rows are written when it ends: for very many rounds."""

    def __init__(self, *args: Any, **columns: Any) -> None:
        self._steps: list[Any] = []
        self._contents: dict[str, JSON] = {}
        super().__init__(*args, **columns)

    def step(self, step: RunStep, contents: Mapping[str, JSON]) -> None:
        self._contents.update(contents)
        self._steps.append(step_row(self.run.pk, step, dict(step.data)))

    def write(self) -> None:
        self.run.steps.bulk_create(self._steps, batch_size=500)
        rows = [content_row(self.run.pk, digest, value) for digest, value in self._contents.items()]
        self.run.contents.bulk_create(rows, batch_size=500)
        self._revise(last_sequence=self._steps[-1].sequence, rounds=self._round)

    def end(self, reason: EndReason = EndReason.COMPLETED, **columns: Any) -> Run:
        self.write()
        return super().end(reason, **columns)


def long_run(user: Any = None, *, rounds: int, failed: Sequence[int] = (), **columns: Any) -> Run:
    """A run of `rounds` rounds that call one tool each, which fails in those named, and one that answers."""
    recorded = BulkRun(user, **columns)
    for number in range(1, rounds + 1):
        broken = ToolResult.failed(FailureKind.TOOL_ERROR, f"Shelf {number} is locked.")
        recorded.round(result=broken if number in failed else f"article {number}, stock {number * 7}")
    recorded.answer("All counted.")
    return recorded.end(answer="All counted.", rounds=rounds + 1, tool_calls=rounds, tool_errors=len(failed))
