"""The tool loop: asks the model, runs the tools that it asks for, and asks again, until something ends the run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llmcore.actions.policy import Policy
from llmcore.actions.proposals import Proposal
from llmcore.configuration import LanguageModel, Parameters, Provider, Route
from llmcore.context.account import Account
from llmcore.errors import ConfigurationError
from llmcore.messages import FinishReason, ModelResponse, ToolSpec
from llmcore.metering.client import Completion, ModelClient
from llmcore.prompts.provenance import Segment
from llmcore.providers.base import ModelCall, Transcript, WireRequest
from llmcore.providers.registry import adapter_of
from llmcore.runs import endings
from llmcore.runs.answer_checks import AnswerChecks
from llmcore.runs.calls import CallRunner
from llmcore.runs.editing import portable
from llmcore.runs.fallback import Chain, call_to, fitted
from llmcore.runs.hooks import Hooks
from llmcore.runs.objections import Objections
from llmcore.runs.outcome import EndReason, Outcome
from llmcore.runs.recording import Recorder
from llmcore.runs.review import Review, Reviewer
from llmcore.runs.state import Progress, RunState
from llmcore.runs.transcript import mend
from llmcore.tools.base import Tool, ToolContext
from llmcore.tools.execute import ToolRunner
from llmcore.tools.results import FailureKind
from llmcore.trace import RunStep, RunTrace

logger = logging.getLogger(__name__)

# Calls of an answer that ended so may be incomplete; a filter or an error means that nothing of it is to be trusted.
CUT_SHORT = frozenset({FinishReason.LENGTH, FinishReason.CONTENT_FILTER, FinishReason.ERROR})


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopEnd:
    """Where the loop stopped, and the state to go on from: with the run's outcome, or because it waits for decisions
    about the `proposal`."""

    state: RunState
    outcome: Outcome | None = None
    proposal: Proposal | None = None


@dataclass(kw_only=True, slots=True)
class _Run:
    """One run of the loop: its progress, what its model is asked with, the transcript that goes out, and the account of
    what that takes of the model's window."""

    progress: Progress
    chain: Chain
    specs: tuple[ToolSpec, ...]
    parameters: Parameters
    call: ModelCall
    transcript: Transcript
    account: Account
    calls: CallRunner
    checks: AnswerChecks
    reviewer: Reviewer
    max_rounds: int
    margin_percent: float
    sent: int = 0

    @property
    def at_limit(self) -> bool:
        return self.progress.rounds_used >= self.max_rounds

    @property
    def past_limit(self) -> bool:
        return self.progress.rounds_used > self.max_rounds

    def extend_transcript(self) -> list[str]:
        """Bring the transcript up to date, and say what had to be mended. The run's own messages stay as they are."""
        messages, foreign = self.progress.messages, self.progress.foreign
        fresh, repairs = mend([*portable(messages[self.sent : foreign]), *messages[max(self.sent, foreign) :]])
        self.transcript.extend(fresh)
        self.sent = len(messages)
        return repairs


class ToolLoop:
    """Runs a model in rounds, one provider call each, with the tools that the state's gate offers."""

    def __init__(
        self,
        *,
        client: ModelClient,
        provider: Provider,
        model: LanguageModel,
        tools: Mapping[str, Tool],
        context: ToolContext | None = None,
        trace: RunTrace | None = None,
        hooks: Hooks | None = None,
        cancel: asyncio.Event | None = None,
        capture_raw: bool = False,
        redact: Callable[[str], str] = str,
        max_identical_calls: int = 3,
        after_tool: Callable[[], None] | None = None,
        policy: Policy | None = None,
        fallbacks: Sequence[Route] = (),
        segments: Sequence[Segment] = (),
    ) -> None:
        """`fallbacks` are asked one after the other where the model before them can't be reached or has no room.
        `segments` say where the texts of the first messages came from.

        `tools` are those that the acting user may use now; of them the loop offers what the state's gate let in.

        `redact` cleans tracebacks. `after_tool` is called in the thread of each synchronous tool when it has ended.
        With a `policy` a run may stop for a decision; without one, a call that needs it is refused.
        """
        self._client = client
        self._routes = (Route(provider=provider, model=model), *fallbacks)
        self._tools = tools
        self._context = context or ToolContext()
        self._hooks = hooks or Hooks()
        self._cancel = cancel
        self._capture = capture_raw and trace is not None
        self._redact = redact
        self._max_identical_calls = max_identical_calls
        self._after_tool = after_tool
        self._policy = policy
        self._segments = segments
        self._steps = trace.steps if trace else ()
        self._recorder = Recorder(trace, redact=redact)

    async def run(self, state: RunState) -> LoopEnd:
        """Go on from `state` until the run ends, or waits for a decision. Raises nothing: what goes wrong is the
        outcome."""
        progress = Progress(state)
        cancelled = asyncio.create_task(self._cancel.wait()) if self._cancel else None
        try:
            stop = await self._rounds(self._begin(progress, state, cancelled))
        except Exception as error:
            stop = self._failed(progress, error)
        finally:
            if cancelled:
                cancelled.cancel()
        if isinstance(stop, Proposal):
            return LoopEnd(proposal=stop, state=progress.state())
        return LoopEnd(outcome=stop, state=progress.state())

    def dry_run(self, state: RunState) -> LoopEnd:
        """Record the request that the next round would send, and send nothing."""
        progress = Progress(state)
        try:
            run = self._begin(progress, state)
            repairs = run.extend_transcript()
            call = self._next_call(run, last=run.at_limit)
            wire = self._client.prepare(call, run.transcript)
            round = progress.rounds_used + 1
            run.account.take(run.transcript.messages, call.tools)
            self._recorder.assembled(
                call, wire, run.transcript.messages, repairs, estimate=run.account.estimate, round=round
            )
            self._recorder.context(run.account.use(call.parameters), round=round)
            outcome = Outcome(reason=EndReason.DRY_RUN, detail="Nothing was sent.")
        except Exception as error:
            outcome = self._failed(progress, error)
        return LoopEnd(outcome=outcome, state=state)

    async def _rounds(self, run: _Run) -> Outcome | Proposal:
        self._recorder.interrupted(run.progress.last_results(), round=run.progress.rounds_used)
        # First the calls that an earlier segment of the run left open.
        if proposal := await self._answer_calls(run):
            return proposal
        while (outcome := self._ending(run)) is None:
            response = await self._ask(run)
            if outcome := endings.of_failure(response):
                return outcome
            run.progress.add_answer(response.message, response.finish_reason)
            if proposal := await self._answer_calls(run):
                return proposal
            if response.refusal:
                return endings.refused(response)
        return outcome

    def _ending(self, run: _Run) -> Outcome | None:
        """What ends the run here, if anything does."""
        if run.past_limit:
            return endings.at_round_limit(run.progress, run.max_rounds)
        if (outcome := endings.of_answer(run.progress)) and (outcome := run.checks.held(outcome, run.chain.route)):
            return outcome
        if self._is_cancelled:
            return Outcome(reason=EndReason.CANCELLED, detail="The run was cancelled.", answer=run.progress.answer)
        if run.calls.halted is not None:
            return Outcome(reason=EndReason.HALTED, detail=run.calls.halted, answer=run.progress.answer)
        return None

    async def _ask(self, run: _Run) -> ModelResponse:
        """One round's answer: of the model that the run is at, or where that fails before its first token, of the next
        one."""
        last = run.at_limit
        completion, following = await self._send(run, last=last)
        while following is not None:
            self._fall_back(run, following)
            completion, following = await self._send(run, last=last)
        if completion.response.cancelled:
            # Whoever goes on from here makes this round again.
            run.progress.rounds_used -= 1
        return completion.response

    async def _send(self, run: _Run, *, last: bool) -> tuple[Completion, Route | None]:
        """One provider call, and where it failed, whom to ask instead."""
        repairs = run.extend_transcript()
        call = self._next_call(run, last=last)
        wire = self._client.prepare(call, run.transcript)
        run.progress.rounds_used = round = run.progress.rounds_used + 1
        request = self._record_request(run, call, wire, repairs=repairs, last=last)
        started_ms = self._recorder.now_ms()
        completion = await self._client.send(
            call,
            wire,
            taken_ids=run.transcript.call_ids,
            observer=self._recorder.observer(round=round, request=request),
            capture=self._capture,
            cancel=self._cancel,
        )
        run.account.report(completion.response.usage.input_tokens if completion.response.usage else None)
        following = None if self._is_cancelled else run.chain.following(completion)
        started_ms += completion.queued_ms
        self._recorder.response(call, completion, round=round, started_ms=started_ms, following=following)
        return completion, following

    def _record_request(
        self, run: _Run, call: ModelCall, wire: WireRequest, *, repairs: list[str], last: bool
    ) -> RunStep | None:
        """The request that is about to go out, and where the window goes with it. Without a trace none is counted."""
        if not self._recorder.records:
            return None
        messages, round = run.transcript.messages, run.progress.rounds_used
        run.account.take(messages, call.tools)
        request = self._recorder.request(
            call, wire, messages, round=round, repairs=repairs, estimate=run.account.estimate, last=last
        )
        self._recorder.context(run.account.use(call.parameters), round=round)
        return request

    def _fall_back(self, run: _Run, route: Route) -> None:
        """Let another model answer this round and those after it: over its own wire, from the same transcript without
        what only the model before it understands."""
        run.progress.fall_back_to(route.name)
        run.progress.rounds_used -= 1
        run.call = call_to(route, fitted(run.parameters, route), run.specs, run.progress.expected)
        run.transcript, run.sent = self._client.transcript(run.call), 0
        run.account = self._account_of(route, run.margin_percent)
        self._recorder.begin_anew()

    def _account_of(self, route: Route, margin_percent: float) -> Account:
        account = Account(route.model, margin_percent=margin_percent, segments=self._segments)
        account.go_on(self._steps, provider=route.provider.slug)
        return account

    async def _answer_calls(self, run: _Run) -> Proposal | None:
        """Give each call of the last answer its result; none runs before all that need a decision have one."""
        progress = run.progress
        pending = progress.pending_calls()
        if not pending:
            return None
        refusal, review = self._refusal(run), Review()
        if refusal is None:
            review = await run.reviewer.review(pending, turn=progress.turn_calls(), decisions=progress.decisions)
            # Who cancels meanwhile is not to be asked.
            if not self._is_cancelled and (proposal := review.proposal(pending, round=progress.rounds_used)):
                self._recorder.proposed(proposal)
                return proposal
        await run.calls.answer(
            pending, round=progress.rounds_used, emit=progress.messages.append, review=review, refusal=refusal
        )
        progress.order_results()
        return None

    def _refusal(self, run: _Run) -> FailureKind | None:
        """Why none of the last answer's calls may run, whatever they are."""
        if run.progress.finish_reason in CUT_SHORT:
            return FailureKind.CUT_OFF
        if run.past_limit:
            return FailureKind.ROUND_LIMIT
        return FailureKind.CANCELLED if self._is_cancelled else None

    @property
    def _is_cancelled(self) -> bool:
        return self._cancel is not None and self._cancel.is_set()

    def _next_call(self, run: _Run, *, last: bool) -> ModelCall:
        if not run.call.tools:
            return run.call
        if not last:
            required = run.progress.rounds_used == 0 and run.call.parameters.tool_choice
            return replace(run.call, tool_choice=required) if required else run.call
        # The last completion can call no tool. Where the wire can say so, the tools stay in the request: a history of
        # calls without tools is refused by some providers, and the cached prefix survives.
        provider, model = run.call.provider, run.call.model
        if adapter_of(provider, model).supports_tool_choice_none and model.supports_tool_choice:
            return replace(run.call, tool_choice="none")
        return replace(run.call, tools=())

    def _begin(self, progress: Progress, state: RunState, cancelled: asyncio.Future[Any] | None = None) -> _Run:
        # Sorted, so that the prefix of all requests is the same.
        offered = {name: self._tools[name] for name in sorted(state.offered) if name in self._tools}
        specs = tuple(tool.spec for tool in offered.values())
        chain = Chain(self._routes, state.route)
        parameters = fitted(state.parameters, chain.route) if state.route else state.parameters
        call = call_to(chain.route, parameters, specs, state.expected)
        runner = ToolRunner(
            context=self._context, cancelled=cancelled, redact=self._redact, after_tool=self._after_tool
        )
        objections = Objections(offered=offered, known=self._tools)
        calls = CallRunner(
            objections=objections,
            runner=runner,
            recorder=self._recorder,
            limits=state.limits,
            hooks=self._hooks,
            counts=progress.call_counts,
            cancel=self._cancel,
            max_identical_calls=self._max_identical_calls,
        )
        return _Run(
            progress=progress,
            chain=chain,
            specs=specs,
            parameters=state.parameters,
            call=call,
            transcript=self._client.transcript(call),
            account=self._account_of(chain.route, state.limits.margin_percent),
            calls=calls,
            checks=AnswerChecks(progress, self._recorder),
            reviewer=Reviewer(policy=self._policy, objections=objections, runner=runner),
            max_rounds=state.limits.max_rounds,
            margin_percent=state.limits.margin_percent,
        )

    def _failed(self, progress: Progress, error: Exception) -> Outcome:
        """An error of our own ends the run; all that was recorded before it stays."""
        self._recorder.error(error, round=progress.rounds_used)
        if isinstance(error, ConfigurationError):
            detail = self._redact(str(error))
        else:
            detail = (
                f"An internal error ended the run: {type(error).__name__}. Its details are in the trace and the log."
            )
        logger.error("a run ended with an internal error: %s", self._redact(repr(error)))
        return Outcome(reason=EndReason.INTERNAL_ERROR, detail=detail, answer=progress.answer)
