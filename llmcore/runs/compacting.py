"""Fits the messages of a run to the window of its model: the oldest turns give way to a summary of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llmcore.configuration import Limits, Route, Summarizer
from llmcore.context.account import Account
from llmcore.context.budget import WindowUse
from llmcore.context.compaction import Compaction, compaction_of, is_summary, marker_message, summary_message
from llmcore.context.summary import (
    LONGEST_SUMMARY,
    Problem,
    own_summarizer,
    problem_with,
    question,
    summarizing_call,
)
from llmcore.errors import UNSENT
from llmcore.messages import JSON, Message
from llmcore.metering.client import Completion, ModelClient
from llmcore.providers.base import ModelCall
from llmcore.runs.observing import SummaryObserver
from llmcore.trace import WireExchange, round_ms

Observe = Callable[[ModelCall, str, int], SummaryObserver | None]

# Less of a prompt than this part is not worth a call, unless there is no room otherwise.
_LEAST_PART = 0.1
# Of what it stands for, a summary takes at most this part.
_REAL_GAIN = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Compacted:
    """A compaction with the message that stands for the old turns, and how that came about: the call to the summarizer,
    the record that it got, why its answer was not used, where it wasn't, and what went over the wire, if it is kept."""

    compaction: Compaction
    message: Message
    summarizer: Summarizer
    call: ModelCall
    record: str
    completion: Completion
    problem: Problem | None
    exchanges: tuple[WireExchange, ...] = ()

    def to_json(self) -> dict[str, JSON]:
        """As a step has it, but for the texts."""
        response, cost, crossings = self.completion.response, self.completion.cost, self.completion.crossings
        return {
            **self.compaction.to_json(),
            "messages": self.compaction.count,
            "problem": self.problem.value if self.problem else None,
            "summarizer": self.summarizer.name,
            "provider": self.call.provider.slug,
            "model": self.call.model.name,
            "finish_reason": response.finish_reason.value if response.finish_reason else None,
            "usage": response.usage.to_json() if response.usage else None,
            "cost": None if cost is None else str(cost),
            "prices": self.call.model.prices.to_json(),
            "attempts": self.completion.attempts,
            "permit_ms": round_ms(self.completion.requeued_ms),
            "error": response.error.to_json() if response.error else None,
            **({"budgets": [crossing.to_json() for crossing in crossings]} if crossings else {}),
        }


class ContextManager:
    """Decides when a transcript is too long, and shortens it; once in a round, whatever comes of it."""

    def __init__(
        self, *, client: ModelClient, limits: Limits, summarizer: Summarizer | None, cancel: asyncio.Event | None
    ) -> None:
        self._client = client
        self._limits = limits
        self._summarizer = summarizer
        self._cancel = cancel
        self._tried_in = 0

    async def compact(
        self,
        messages: Sequence[Message],
        *,
        call: ModelCall,
        use: WindowUse,
        account: Account,
        round: int,
        observe: Observe,
        capture: bool = False,
    ) -> Compacted | None:
        """What is to take the place of the oldest of `messages` before `call`; `None` where there is room enough, where
        nothing is worth a call or would give room, or where somebody cancelled. `observe` gives who watches the call of
        a summarizer, by its name, for a summary of so many messages."""
        if self._tried_in == round or not use.is_crowded(self._limits.compact_at_percent):
            return None
        self._tried_in = round
        found = self._choose(messages, use, account)
        if found is None:
            return None
        gone = account.tokens_in(found.old(messages))
        if not use.could_have_room(call.parameters, without=gone):
            return None
        own = Route(provider=call.provider, model=call.model)
        summarizer = self._summarizer or own_summarizer(own, stream=call.parameters.stream)
        return await self._summarized(found, messages, account, summarizer, observe, capture)

    def _choose(self, messages: Sequence[Message], use: WindowUse, account: Account) -> Compaction | None:
        """The compaction that keeps as many of the recent turns as there is room for."""
        chosen, threshold = None, (use.budget or 0) * self._limits.compact_at_percent / 100
        for keep in range(max(self._limits.keep_turns, 1), 0, -1):
            found = compaction_of(messages, keep_turns=keep)
            if found is None:
                continue
            folded = account.tokens_in(found.old(messages))
            if folded < use.used * _LEAST_PART and use.used <= (use.budget or 0):
                continue
            chosen = found
            if use.used - folded + min(LONGEST_SUMMARY, folded * _REAL_GAIN) <= threshold:
                break
        return chosen

    async def _summarized(
        self,
        found: Compaction,
        messages: Sequence[Message],
        account: Account,
        summarizer: Summarizer,
        observe: Observe,
        capture: bool,
    ) -> Compacted | None:
        old = found.old(messages)
        folded, marker = account.tokens_in(old), marker_message(old)
        if account.tokens_in([marker]) >= folded:
            return None
        call = summarizing_call(summarizer)
        asked = question(summarizer, call, old, task_of(messages))
        observer = observe(call, summarizer.name, found.count)
        if observer is not None:
            observer.begun()
        completion = await self._client.send(
            call,
            self._client.prepare(call, self._client.transcript(call, asked)),
            observer=observer,
            capture=capture,
            cancel=self._cancel,
            input_tokens=self._most_tokens(call, asked),
        )
        if observer is not None:
            observer.over()
        response = completion.response
        if response.cancelled or (response.error is not None and response.error.kind in UNSENT):
            # Whoever goes on from here finds the turns as they are.
            return None
        problem, message = problem_with(response), summary_message(response.text)
        if problem is None and account.tokens_in([message]) > folded * _REAL_GAIN:
            problem = Problem.NO_GAIN
        if problem is not None:
            message = marker
        return Compacted(
            compaction=found,
            message=message,
            summarizer=summarizer,
            call=call,
            record=asked[-1].text,
            completion=completion,
            problem=problem,
            exchanges=tuple(observer.exchanges) if observer else (),
        )

    def _most_tokens(self, call: ModelCall, asked: Sequence[Message]) -> int:
        account = Account(call.model, margin_percent=self._limits.margin_percent)
        account.take(asked, ())
        return account.use(call.parameters).most_used


def task_of(messages: Sequence[Message]) -> str:
    """What the user asked for last."""
    asked = (message.text for message in reversed(messages) if message.role == "user" and not is_summary(message))
    return next(asked, "")
