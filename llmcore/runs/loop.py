"""The tool loop: asks the model, runs the tools that it asks for, and asks again, until something ends the run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llmcore.actions.policy import Policy
from llmcore.actions.proposals import Proposal
from llmcore.configuration import LanguageModel, Provider, Route, Summarizer
from llmcore.errors import ConfigurationError
from llmcore.messages import FinishReason
from llmcore.metering.client import ModelClient
from llmcore.prompts.provenance import Segment
from llmcore.runs import endings
from llmcore.runs.answer_checks import AnswerChecks
from llmcore.runs.asking import Asking
from llmcore.runs.calls import CallRunner
from llmcore.runs.compacting import ContextManager
from llmcore.runs.fallback import Chain
from llmcore.runs.hooks import Hooks
from llmcore.runs.objections import Objections
from llmcore.runs.outcome import EndReason, Outcome
from llmcore.runs.recording import Recorder
from llmcore.runs.review import Review, Reviewer
from llmcore.runs.state import Progress, RunState
from llmcore.tools.base import Tool, ToolContext
from llmcore.tools.execute import ToolRunner
from llmcore.tools.resources import RunResources
from llmcore.tools.results import FailureKind
from llmcore.trace import RunTrace

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
    """One run of the loop: its progress, how it asks its model, and what answers the model's calls."""

    progress: Progress
    asking: Asking
    calls: CallRunner
    checks: AnswerChecks
    reviewer: Reviewer
    max_rounds: int

    @property
    def at_limit(self) -> bool:
        return self.progress.rounds_used >= self.max_rounds

    @property
    def past_limit(self) -> bool:
        return self.progress.rounds_used > self.max_rounds


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
        summarizer: Summarizer | None = None,
    ) -> None:
        """`fallbacks` are asked one after the other where the model before them can't be reached or has no room.
        `segments` say where the texts of the first messages came from. The `summarizer` shortens the transcript where
        the state's limits say so; without one the model does that itself.

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
        self._summarizer = summarizer
        self._steps = trace.steps if trace else ()
        self._recorder = Recorder(trace, redact=redact)

    async def run(self, state: RunState) -> LoopEnd:
        """Go on from `state` until the run ends, or waits for a decision. Raises nothing: what goes wrong is the
        outcome."""
        progress = Progress(state)
        cancelled = asyncio.create_task(self._cancel.wait()) if self._cancel else None
        try:
            async with RunResources() as resources:
                stop = await self._rounds(self._begin(progress, state, cancelled, resources))
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
            run.asking.dry_run(last=run.at_limit)
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
            response = await run.asking.ask(last=run.at_limit)
            if isinstance(response, Outcome):
                return response
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
        if (outcome := endings.of_answer(run.progress)) and (outcome := run.checks.held(outcome, run.asking.route)):
            return outcome
        if self._is_cancelled:
            return endings.cancelled(run.progress)
        if run.calls.halted is not None:
            return Outcome(reason=EndReason.HALTED, detail=run.calls.halted, answer=run.progress.answer)
        return None

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

    def _begin(
        self,
        progress: Progress,
        state: RunState,
        cancelled: asyncio.Future[Any] | None = None,
        resources: RunResources | None = None,
    ) -> _Run:
        # Sorted, so that the prefix of all requests is the same.
        offered = {name: self._tools[name] for name in sorted(state.offered) if name in self._tools}
        runner = ToolRunner(
            context=replace(self._context, resources=resources),
            cancelled=cancelled,
            redact=self._redact,
            after_tool=self._after_tool,
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
        manager = ContextManager(
            client=self._client, limits=state.limits, summarizer=self._summarizer, cancel=self._cancel
        )
        asking = Asking(
            client=self._client,
            recorder=self._recorder,
            manager=manager,
            chain=Chain(self._routes, state.route),
            progress=progress,
            state=state,
            specs=tuple(tool.spec for tool in offered.values()),
            segments=self._segments,
            steps=self._steps,
            capture=self._capture,
            cancel=self._cancel,
        )
        return _Run(
            progress=progress,
            asking=asking,
            calls=calls,
            checks=AnswerChecks(progress, self._recorder),
            reviewer=Reviewer(policy=self._policy, objections=objections, runner=runner),
            max_rounds=state.limits.max_rounds,
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
