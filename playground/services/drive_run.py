"""Drives a run: claims it, lets the loop run beside it, writes down what happens, and ends it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from asgiref.sync import sync_to_async
from django.db import connections
from django.utils import timezone

from llmcore import store
from llmcore.budgets.run import RunBudgets
from llmcore.errors import InvalidInput, LLMError, SecretUnavailable
from llmcore.metering.client import ModelClient, open_http
from llmcore.runs.hooks import Hooks
from llmcore.runs.loop import LoopEnd, ToolLoop
from llmcore.runs.outcome import EndReason, Outcome
from llmcore.site_budgets import site_budgets
from llmcore.site_hooks import site_hooks
from llmcore.site_permits import site_permits
from llmcore.site_usage import DatabaseMeter
from llmcore.tools.execute import is_async
from llmcore.tools.replacement import Mode
from llmcore.trace import ErrorData, RunTrace, StepKind
from llmcore.versions import keep_versions
from playground.claims import Claim, ClaimLost, claim_run
from playground.interruption import interruption_detail, running_calls, unsafe_calls
from playground.loop_thread import Ended, LoopThread, Watched
from playground.recording import RunRecording
from playground.rows import load_contents, load_steps
from playground.run_findings import findings_of
from playground.segments import Segment, first_segment, next_segment
from playground.services.cancel_run import cancel_run, cancelled_by
from playground.services.learn_tokens import learn_tokens
from playground.services.prepare_run import Found, context_for, prepare_run
from playground.services.start_run import RunRequest

logger = logging.getLogger(__name__)

# How often a driven run is looked at: for a cancel request, for text that is being streamed.
LOOK_S = 0.2
PARTIAL_S = 0.25
# Steps that follow each other faster than this are stored together. Who watches the run looks less often.
GATHER_S = 0.02
# How long a loop that was told to end may take before it is left alone.
GRACE_S = 5.0
INTERNAL = "The run failed inside this site, not at the model."

Watch = Callable[[Watched], None]


def drive_run(
    *,
    run_id: int,
    worker: str,
    stopping: threading.Event | None = None,
    cancelling: threading.Event | None = None,
    watch: Watch | None = None,
    now: datetime | None = None,
) -> bool:
    """Drive the run on this thread to its end, or until it waits for a decision. False where it is not (or no longer)
    there to be claimed.

    `stopping` says that this process is about to end, `cancelling` that whoever started it here wants it to end.
    `watch` gets every item after it is stored, and where a call stands in line for its permit.
    """
    claim = claim_run(run_id=run_id, worker=worker, now=now or timezone.now())
    if claim is None:
        return False
    drive = Drive(claim, stopping or threading.Event(), cancelling or threading.Event(), watch or (lambda item: None))
    try:
        drive.drive()
    except ClaimLost as lost:
        logger.warning("run %s is no longer ours, nothing more is written for it: %s", run_id, lost)
    return True


class Drive:
    """One worker's work on one run, from the claim to the end."""

    def __init__(self, claim: Claim, stopping: threading.Event, cancelling: threading.Event, watch: Watch) -> None:
        self._run = claim.run
        self._redactor = store.site_redactor()
        self._thread = LoopThread(name=f"run {claim.run_id}")
        self._trace = RunTrace(self._thread)
        meter = DatabaseMeter(
            run_id=claim.run_id,
            user=self._run.user,
            configuration_id=self._run.configuration_id,
            redactor=self._redactor,
        )
        self._recording = RunRecording(claim=claim, redactor=self._redactor, meter=meter)
        self._stopping = stopping
        self._cancelling = cancelling
        self._watch = watch
        self._cancelled = False
        self._goes_on = self._run.plan is not None
        self._policy = store.load_policy(self._run.user)
        self._hooks = Hooks()
        self._budgets = RunBudgets()
        self._error: ErrorData | None = None

    def drive(self) -> None:
        if self._stopping.is_set():
            self._recording.give_back()
            return
        try:
            segment = self._begin()
        except ClaimLost:
            raise
        except Exception as error:
            self._end(self._not_begun(error))
            return
        self._thread.start(lambda: self._loop(segment))
        try:
            ended = self._follow()
        except ClaimLost:
            self._thread.abort()
            raise
        except Exception as error:
            self._thread.abort()
            ended = Ended(error=error)
        self._finish(ended)

    def _begin(self) -> Segment:
        request = RunRequest.from_json(self._run.request)
        self._hooks = site_hooks()
        self._policy = self._policy.asking(item.tool for item in request.replacements if item.mode is Mode.ASK)
        if self._goes_on:
            segment = next_segment(self._run)
        else:
            kept = keep_versions(configuration=request.configuration, skills=request.skills, snippets=request.snippets)
            found = None
            if kept is not None and not request.versions:
                found = Found.of(kept, read_keys=not request.dry_run)
            prepared = prepare_run(request=request, user=self._run.user, found=found, redactor=self._redactor)
            self._run.plan = prepared.plan()
            self._recording.plan(self._run.plan, prepared.contents(), max_rounds=prepared.state.limits.max_rounds)
            segment = first_segment(prepared)
        self._budgets = site_budgets(
            configuration=segment.configuration,
            user=self._run.user,
            run_id=self._run.pk,
            unreported=segment.unreported() if segment.configuration.ceiling else None,
        )
        self._recording.go_on(segment.steps)
        self._trace = RunTrace(
            self._thread, offset_ms=self._recording.offset_ms, steps=segment.steps, contents=segment.contents
        )
        return segment

    async def _loop(self, segment: Segment) -> LoopEnd:
        async with open_http() as http, site_permits(run_id=self._run.pk) as permits, self._budgets as budgets:
            loop = ToolLoop(
                client=ModelClient(http=http, meter=self._thread, permits=permits, budgets=budgets or None),
                provider=segment.configuration.provider,
                model=segment.configuration.model,
                tools=segment.tools,
                context=context_for(segment.configuration, user=self._run.user, run_id=self._run.pk),
                trace=self._trace,
                cancel=self._thread.cancel_event,
                capture_raw=self._run.capture_raw,
                redact=self._redactor.patterns,
                after_tool=connections.close_all,
                policy=self._policy,
                hooks=self._hooks,
                fallbacks=segment.configuration.fallbacks,
                segments=segment.sources,
                summarizer=segment.configuration.summarizer,
            )
            try:
                return loop.dry_run(segment.state) if self._run.dry_run else await loop.run(segment.state)
            finally:
                if any(is_async(tool.run) for tool in segment.tools.values()):
                    # Their queries run in a thread that all runs of this process share.
                    await sync_to_async(connections.close_all)()

    def _follow(self) -> Ended:
        """Write what the loop records, until it has ended or was told to and doesn't."""
        told_at: float | None = None
        looked = streamed = written = 0.0
        while True:
            items = self._thread.take(LOOK_S / 2, gather_until=written + GATHER_S)
            now = time.monotonic()
            partial = None
            if now - streamed >= PARTIAL_S and (partial := self._thread.partial.take()) is not None:
                streamed = now
            if items or partial is not None:
                self._recording.write(items, partial)
                written = time.monotonic()
            for item in items:
                self._watch(item)
            if partial is not None and partial.waiting:
                self._watch(partial)
            if items and isinstance(items[-1], Ended):
                return items[-1]
            if now - looked >= LOOK_S:
                looked = now
                self._recording.renew()
                if told_at is None and self._shall_end():
                    told_at = now
                    self._thread.cancel()
            if told_at is not None and now - told_at > GRACE_S:
                self._thread.abort()
                return Ended()

    def _shall_end(self) -> bool:
        if self._cancelling.is_set() and not self._cancelled:
            cancel_run(run=self._run, by=self._run.user, now=timezone.now())
        self._cancelled = self._recording.cancel_requested()
        return self._cancelled or self._stopping.is_set()

    def _finish(self, ended: Ended) -> None:
        if ended.error is not None:
            self._end(self._failed(ended.error))
            return
        proposal = ended.end.proposal if ended.end else None
        if proposal is not None and self._recording.suspend(proposal):
            logger.info("run %s waits for %d decisions", self._run.pk, len(proposal.actions))
            return
        outcome = (ended.end and ended.end.outcome) or Outcome(reason=EndReason.CANCELLED)
        if outcome.reason is not EndReason.CANCELLED:
            self._end(outcome)
        elif self._cancelled or self._recording.cancel_requested():
            self._end(replace(outcome, detail=self._cancel_detail()))
        elif unsafe_calls(self._trace.steps):
            detail = interruption_detail("The worker was stopped.", self._trace.steps)
            self._end(replace(outcome, reason=EndReason.INTERRUPTED, detail=detail))
        else:
            logger.info("run %s goes back into the queue: its worker is being stopped", self._run.pk)
            self._recording.give_back()

    def _end(self, outcome: Outcome) -> None:
        steps, contents = self._trace.steps, self._trace.contents
        if self._run.last_sequence and not steps:
            # It couldn't go on: what earlier segments recorded was not read yet.
            steps, contents = load_steps(self._run.pk), load_contents(self._run.pk)
        self._recording.end(
            reason=outcome.reason,
            detail=outcome.detail,
            answer=outcome.answer,
            error=outcome.error.to_json() if outcome.error else self._error,
            findings=findings_of(self._run, steps, contents, reason=outcome.reason),
        )
        learn_tokens(run=self._run, steps=steps)

    def _cancel_detail(self) -> str:
        self._run.refresh_from_db(fields=["cancelled_by"])
        names = ", ".join(f"“{step.data['name']}”" for step in running_calls(self._trace.steps))
        running = f" Still running then, with unknown effect: {names}." if names else ""
        return cancelled_by(self._run.cancelled_by) + running

    def _not_begun(self, error: Exception) -> Outcome:
        if not self._goes_on:
            return self._failed(error)
        # It was to go on from an interruption: nothing is lost, and it can be tried again.
        self._error = self._explain(error)
        return Outcome(reason=EndReason.INTERRUPTED, detail=f"The run can't go on as it is. {self._error['message']}")

    def _failed(self, error: BaseException) -> Outcome:
        """Record what went wrong in the runtime itself, or before round 1."""
        self._error = self._explain(error)
        # A loop that was aborted a moment ago is still the trace's writer.
        if self._thread.ended.wait(GRACE_S):
            round = self._trace.steps[-1].round if self._trace.steps else 0
            self._trace.record(StepKind.ERROR, round=round, data=self._error)
            self._recording.write(self._thread.take(0))
        return Outcome(reason=EndReason.INTERNAL_ERROR, detail=self._error["message"])

    def _explain(self, error: BaseException) -> ErrorData:
        text = self._redactor.render_exception(error)
        if isinstance(error, LLMError):
            # What is said of an input may quote it, so it is content and not for the log.
            kind = "input" if isinstance(error, InvalidInput) else "configuration"
            reason = "an input is invalid" if kind == "input" else text
            logger.warning("run %s can't be driven: %s", self._run.pk, reason)
            message = self._redactor.patterns(str(error))
            return ErrorData(message=message, advice=advice_on(error), kind=kind, traceback=None)
        logger.error("run %s failed: %s", self._run.pk, text)
        return ErrorData(
            message=INTERNAL, advice=advice_on(error), kind="internal_error", traceback=self._trace.keep(text)
        )


def advice_on(error: BaseException) -> str:
    match error:
        case SecretUnavailable():
            return "Open the provider and enter its key again, or set the environment variable that it names."
        case LLMError():
            return "Change what the message names and run it again: all that was entered is kept."
        case _:
            return "The traceback is in the trace and in the worker's log. Report it to whoever looks after this site."
