"""Keeps account of what takes the window of a model while a transcript grows: each message is estimated once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llmcore.configuration import LanguageModel, Parameters
from llmcore.context.budget import WindowUse, window_use
from llmcore.context.estimator import Estimator
from llmcore.context.learning import BELIEVED, LEAST_SAMPLES, Step
from llmcore.context.tokens import Share, apportioned
from llmcore.messages import Message, ToolSpec
from llmcore.prompts.provenance import Segment
from llmcore.trace import StepKind

# What a provider puts around every request outweighs the text of smaller ones: of them no ratio is learned.
_FEWEST_FOR_RATIO = 1_000


class Account:
    """What one model's requests in one run are made of. What the provider counts for a request corrects the next ones.

    `margin_percent` is what an estimate by the rule of thumb may be wrong by; with a vocabulary, or once counts have
    corrected it, it is half of that. `segments` say where the texts of the first messages came from; other messages
    belong to who said them.
    """

    def __init__(self, model: LanguageModel, *, margin_percent: float, segments: Iterable[Segment] = ()) -> None:
        self._model = model
        self._estimator = Estimator.of(model)
        self._percent = margin_percent
        self._segments: dict[int, list[Segment]] = {}
        for segment in segments:
            self._segments.setdefault(segment.message, []).append(segment)
        self._messages = 0
        self._shares: dict[Share, int] = {}
        self._tools: Sequence[ToolSpec] = ()
        self._tool_tokens = 0
        self._estimate = 0
        # What the provider counted last, for a request that had been estimated at so many tokens.
        self._counted = 0
        self._counted_estimate = 0
        self._ratio = 1.0

    def begin_anew(self, *, changed_from: int) -> None:
        """The next messages may be other ones from the message `changed_from` on; what was counted still teaches."""
        self._messages = 0
        self._shares = {}
        self._segments = {index: found for index, found in self._segments.items() if index < changed_from}

    def tokens_in(self, messages: Iterable[Message]) -> int:
        """About how many tokens these messages take in a request."""
        return round(sum(map(self._estimator.message, messages)) * self._ratio)

    @property
    def estimate(self) -> int:
        """The tokens of the request that was taken last, before anything reported corrects them."""
        return self._estimate

    def take(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> None:
        """A request of these messages and tools is about to go out. The messages of the one before it come first."""
        for index in range(self._messages, len(messages)):
            for share, tokens in self._shares_of(index, messages[index]).items():
                self._shares[share] = self._shares.get(share, 0) + tokens
        self._messages = len(messages)
        if tools is not self._tools:
            self._tools, self._tool_tokens = tools, self._estimator.tools(tools)
        self._estimate = sum(self._shares.values()) + self._tool_tokens

    def report(self, input_tokens: int | None) -> None:
        """The provider counted so many tokens in the request that was taken last; `None` where it didn't say."""
        self._believe(self._estimate, input_tokens)

    def go_on(self, steps: Iterable[Step], *, provider: str) -> None:
        """Take over what this model's provider counted in earlier segments of the run, from their recorded steps."""
        estimate = None
        for step in steps:
            if step.kind == StepKind.REQUEST:
                same = (step.data.get("provider"), step.data.get("model")) == (provider, self._model.name)
                estimate = step.data.get("input_tokens_estimate") if same else None
            elif step.kind == StepKind.RESPONSE and estimate:
                usage: Mapping[str, Any] = step.data.get("usage") or {}
                self._believe(estimate, usage.get("input_tokens"))

    def use(self, parameters: Parameters) -> WindowUse:
        """Where the window goes with the request that was taken last."""
        added = round((self._estimate - self._counted_estimate) * self._ratio)
        used = max(self._counted + added, 1) if self._estimate else 0
        shares = {Share.TOOLDEF: self._tool_tokens, **self._shares}
        return window_use(
            apportioned({share: tokens for share, tokens in shares.items() if tokens}, used),
            model=self._model,
            parameters=parameters,
            # What was counted and is no longer sent was not counted by itself.
            doubtful=min(abs(added), used),
            percent=self._percent / 2 if self._corrected else self._percent,
        )

    @property
    def _corrected(self) -> bool:
        return bool(self._counted or self._estimator.tokenizer or self._estimator.samples >= LEAST_SAMPLES)

    def _believe(self, estimate: int, counted: int | None) -> None:
        """Go on from what the provider counted, unless it is so far off that it has another cause, such as a server
        that cuts the prompt."""
        if not estimate or not counted:
            return
        ratio = counted / estimate
        large = estimate >= _FEWEST_FOR_RATIO
        if large and not BELIEVED[0] <= ratio <= BELIEVED[1]:
            return
        self._counted, self._counted_estimate = counted, estimate
        self._ratio = ratio if large else 1.0

    def _shares_of(self, index: int, message: Message) -> dict[Share, int]:
        shares = self._estimator.shares(message)
        segments = self._segments.get(index)
        if not segments:
            return shares
        by_source: dict[Share, int] = {}
        for segment in segments:
            share = Share(segment.source.value)
            by_source[share] = by_source.get(share, 0) + segment.tokens
        whole = sum(shares.values())
        # What the wire format puts around a message belongs to no source.
        frame = whole - sum(by_source.values())
        if frame > 0:
            return {**by_source, Share.FRAME: frame}
        # The pieces of a text may come to more than the whole, which is estimated from samples where it is long.
        return apportioned(by_source, whole)
