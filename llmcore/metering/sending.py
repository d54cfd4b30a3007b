"""One call on its way to a provider, and how it ended."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from decimal import Decimal

from llmcore.budgets.base import Crossing
from llmcore.messages import ModelResponse
from llmcore.metering.watch import Observer
from llmcore.providers.base import Adapter, ModelCall, WireRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """How a call ended. Times are milliseconds since it began, `None` where nothing was streamed; `cost` is `None`
    where it is unpriced or unknown.

    It began with its first permit, for which it waited `queued_ms`; `requeued_ms` of its time its later attempts waited
    for theirs. Without `attempts` it was never sent: it was cancelled while it waited, or fits no budget. It was the
    first to come to the parts of budgets that are its `crossings`.
    """

    response: ModelResponse
    attempts: int = 1
    queued_ms: float = 0.0
    requeued_ms: float = 0.0
    first_token_ms: float | None = None
    thinking_ms: float | None = None
    cost: Decimal | None = None
    crossings: tuple[Crossing, ...] = ()


@dataclass(kw_only=True, slots=True)
class Sending:
    """One call on its way, through all its attempts. Its prompt has at most about `input_tokens`, if anybody counted.
    `started` and `deadline` are times of the client's clock; what is waited for permits is not counted against them.
    """

    call: ModelCall
    request: WireRequest
    adapter: Adapter
    observer: Observer | None
    capture: bool
    cancel: asyncio.Event | None
    input_tokens: int | None = None
    started: float = 0.0
    deadline: float = 0.0
    queued_ms: float = 0.0
    requeued_ms: float = 0.0
    crossings: list[Crossing] = field(default_factory=list)
