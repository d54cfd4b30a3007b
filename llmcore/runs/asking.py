"""How a run asks its model: with what, over which wire, in how much room, and whom where that one fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from llmcore.configuration import Parameters, Route
from llmcore.context.account import Account
from llmcore.errors import UNSENT
from llmcore.messages import ModelResponse, ToolSpec
from llmcore.metering.client import Completion, ModelClient
from llmcore.prompts.provenance import Segment
from llmcore.providers.base import ModelCall
from llmcore.providers.registry import adapter_of
from llmcore.runs import endings
from llmcore.runs.compacting import Compacted, ContextManager
from llmcore.runs.editing import portable
from llmcore.runs.fallback import Chain, call_to, fitted
from llmcore.runs.outcome import Outcome
from llmcore.runs.recording import Recorder
from llmcore.runs.state import Progress, RunState
from llmcore.runs.transcript import mend
from llmcore.trace import RunStep


class Asking:
    """One run's side towards its model: the transcript that goes out, and the account of what that takes of the window.

    `route` is the model that is asked. `specs` are the tools that are offered. `segments` say where the texts of the
    first messages came from, `steps` are those that earlier segments of the run recorded.
    """

    def __init__(
        self,
        *,
        client: ModelClient,
        recorder: Recorder,
        manager: ContextManager,
        chain: Chain,
        progress: Progress,
        state: RunState,
        specs: tuple[ToolSpec, ...],
        segments: Sequence[Segment],
        steps: Sequence[RunStep],
        capture: bool,
        cancel: asyncio.Event | None,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._manager = manager
        self._chain = chain
        self._progress = progress
        self._parameters = state.parameters
        self._margin_percent = state.limits.margin_percent
        self._specs = specs
        self._segments = segments
        self._steps = steps
        self._capture = capture
        self._cancel = cancel
        parameters = fitted(state.parameters, chain.route) if state.route else state.parameters
        self._ask_of(chain.route, parameters)

    async def ask(self, *, last: bool) -> ModelResponse | Outcome:
        """One round's answer: of the model that the run is at, or where that fails before its first token, of the next
        one. An outcome where nothing can be asked."""
        following: Route | None = self._chain.route
        while following is not None:
            if self.route != following:
                self._fall_back(following)
            call = self._next_call(last=last)
            if outcome := await self._make_room(call):
                return outcome
            completion, following = await self._send(call, last=last)
        response = completion.response
        if response.cancelled or (response.error is not None and response.error.kind in UNSENT):
            # Whoever goes on from here makes this round again.
            self._progress.rounds_used -= 1
        return response

    def dry_run(self, *, last: bool) -> None:
        """Record the request that would be sent."""
        call, round = self._next_call(last=last), self._progress.rounds_used + 1
        self._extend()
        self._account.take(self._transcript.messages, call.tools)
        wire = self._client.prepare(call, self._transcript)
        estimate = self._account.estimate
        self._recorder.assembled(call, wire, self._transcript.messages, self._repairs, estimate=estimate, round=round)
        self._recorder.context(self._account.use(call.parameters), round=round)

    async def _make_room(self, call: ModelCall) -> Outcome | None:
        """Bring the transcript up to date, and shorten it where the window is too full; the end of the run where even
        then nothing can be asked."""
        self._extend()
        if not (self._recorder.records or self._client.reserves or call.model.context_window is not None):
            # Nobody asks for its tokens.
            return None
        self._account.take(self._transcript.messages, call.tools)
        round = self._progress.rounds_used + 1
        use, started_ms = self._account.use(call.parameters), self._recorder.now_ms()
        compacted = await self._manager.compact(
            self._progress.messages,
            call=call,
            use=use,
            account=self._account,
            round=round,
            observe=partial(self._recorder.summary_observer, round=round),
            capture=self._capture,
        )
        if compacted is not None:
            self._apply(compacted, call)
            started_ms += compacted.completion.queued_ms
            after = self._account.use(call.parameters)
            self._recorder.compaction(compacted, before=use, after=after, round=round, started_ms=started_ms)
        if self._is_cancelled:
            return endings.cancelled(self._progress)
        use = self._account.use(call.parameters)
        if use.has_room(call.parameters):
            return None
        self._recorder.context(use, round=round)
        return endings.without_room(self._progress, use, call)

    async def _send(self, call: ModelCall, *, last: bool) -> tuple[Completion, Route | None]:
        """One provider call, and where it failed, whom to ask instead."""
        wire = self._client.prepare(call, self._transcript)
        self._progress.rounds_used = round = self._progress.rounds_used + 1
        request = self._recorder.request(
            call,
            wire,
            self._transcript.messages,
            round=round,
            repairs=self._repairs,
            estimate=self._account.estimate,
            last=last,
        )
        if self._recorder.records:
            self._recorder.context(self._account.use(call.parameters), round=round)
        started_ms = self._recorder.now_ms()
        completion = await self._client.send(
            call,
            wire,
            taken_ids=self._transcript.call_ids,
            observer=self._recorder.observer(round=round, request=request),
            capture=self._capture,
            cancel=self._cancel,
            input_tokens=self._account.use(call.parameters).most_used if self._account.estimate else None,
        )
        usage = completion.response.usage
        self._account.report(usage.input_tokens if usage else None)
        following = None if self._is_cancelled else self._chain.following(completion)
        started_ms += completion.queued_ms
        self._recorder.response(call, completion, round=round, started_ms=started_ms, following=following)
        return completion, following

    def _apply(self, compacted: Compacted, call: ModelCall) -> None:
        """Go on with a shorter transcript: what stays of it is encoded again."""
        self._progress.compact(compacted.compaction, compacted.message)
        self._begin_transcript()
        self._recorder.begin_anew()
        self._extend()
        self._account.begin_anew(changed_from=compacted.compaction.folded[0][0])
        self._account.take(self._transcript.messages, call.tools)

    def _fall_back(self, route: Route) -> None:
        """Let another model answer this round and those after it: over its own wire, from the same transcript without
        what only the model before it understands."""
        self._progress.fall_back_to(route.name)
        self._progress.rounds_used -= 1
        self._ask_of(route, fitted(self._parameters, route))
        self._recorder.begin_anew()

    def _ask_of(self, route: Route, parameters: Parameters) -> None:
        self.route = route
        self._call = call_to(route, parameters, self._specs, self._progress.expected)
        self._begin_transcript()
        self._repairs: list[str] = []
        self._account = Account(route.model, margin_percent=self._margin_percent, segments=self._segments)
        self._account.go_on(self._steps, provider=route.provider.slug)

    def _begin_transcript(self) -> None:
        self._transcript, self._sent = self._client.transcript(self._call), 0
        # Ids stay unique in the run: what was decided about a call must never hold for another one.
        self._transcript.call_ids.update(self._progress.folded_calls)

    def _extend(self) -> None:
        """Bring the transcript up to date. The run's own messages stay as they are; what had to be mended is noted."""
        messages, foreign = self._progress.messages, self._progress.foreign
        fresh, self._repairs = mend([*portable(messages[self._sent : foreign]), *messages[max(self._sent, foreign) :]])
        self._transcript.extend(fresh)
        self._sent = len(messages)

    def _next_call(self, *, last: bool) -> ModelCall:
        call = self._call
        if not call.tools:
            return call
        if not last:
            required = self._progress.rounds_used == 0 and call.parameters.tool_choice
            return replace(call, tool_choice=required) if required else call
        # The last completion can call no tool. Where the wire can say so, the tools stay in the request: a history of
        # calls without tools is refused by some providers, and the cached prefix survives.
        choosable = call.model.supports_tool_choice or call.model.tools_as_json
        if choosable and adapter_of(call.provider, call.model).supports_tool_choice_none:
            return replace(call, tool_choice="none")
        return replace(call, tools=())

    @property
    def _is_cancelled(self) -> bool:
        return self._cancel is not None and self._cancel.is_set()
