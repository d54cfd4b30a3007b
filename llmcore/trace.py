"""The ordered record of a run. Absent in production: then nothing here is touched.

A trace of N rounds costs O(N): messages, tool lists and large texts are kept once in `contents`, addressed by
digest, and a request step names only the messages that are new since the request before it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, Self, TypedDict

from llmcore.messages import JSON, Delta, Message, digest_of


class StepKind(StrEnum):
    """What a step records. The data of each kind is the TypedDict of the same name below."""

    ASSEMBLED = "assembled"  # a dry run's request, which was not sent (RequestData)
    REQUEST = "request"  # recorded before the call goes out (RequestData)
    RESPONSE = "response"
    TOOL_CALL = "tool_call"  # recorded before the tool starts
    TOOL_RESULT = "tool_result"
    RETRY = "retry"
    ERROR = "error"
    PERMIT = "permit"
    CONTEXT = "context"  # where the window goes, after each request or dry run
    COMPACTION = "compaction"  # old turns gave way to a summary, before the request that follows
    ACTION = "action"
    VALIDATION = "validation"  # an answer was held to its schema


class RequestData(TypedDict, total=False):
    """`kept` messages are the same as the previous request's first ones; `added` are the digests that follow them."""

    kept: int
    added: list[str]
    messages: int  # kept + len(added)
    tools: str | None  # digest of the list of tool specs offered, None where none is
    tool_names: list[str]
    tool_choice: str
    parameters: dict[str, JSON]
    response_schema: str  # digest of what the wire was told of the answer's schema; only where it was
    provider: str  # its slug
    adapter: str
    model: str
    method: str
    url: str
    headers: dict[str, str]  # masked
    body_sha256: str
    body_bytes: int
    body: str  # digest of the exact body's text; dry runs only
    input_tokens_estimate: int
    repairs: list[str]  # what the validation of the transcript had to mend (L13)
    last: bool  # the tool-free completion at the limit
    compacted: bool  # old turns gave way to a summary since the request before; only where that is so


class ContextData(TypedDict, total=False):
    """Where the window goes with the request before it, in tokens, as far as it is known then."""

    window: int | None  # of the model that is asked
    used: int  # by the prompt, corrected by what the provider counted for the requests before
    reserve: int | None  # kept for the answer
    margin: int | None  # kept for what the estimate may be wrong by
    free: int | None  # the rest of the window; below 0 where there is too little
    counted: int  # of those used, how many the provider itself has counted
    shares: dict[str, int]  # what the prompt is made of, by `Share`; they add up to those used


class SummaryInWork(TypedDict):
    """What is known of a summary before it is there; told while it is written, and never a step."""

    messages: int  # how many are to give way to it
    summarizer: str  # as in `CompactionData`
    model: str  # its label


class CompactionData(TypedDict, total=False):
    """How the transcript changed: `folded` and `at` are those of a `Compaction`, and `message` stands there instead."""

    folded: list[list[int]]
    at: int
    message: str  # digest of the message that stands for what was folded
    messages: int  # how many were folded
    record: str  # digest of the text that was to be summarized
    tokens_before: int
    tokens_after: int
    problem: str | None  # a `Problem` of the summary, which was then not used
    summarizer: str  # the name of its configuration, empty where the run's own model was asked
    provider: str
    model: str
    finish_reason: str | None
    usage: dict[str, JSON] | None
    cost: str | None
    prices: dict[str, JSON]
    attempts: int
    permit_ms: float  # of the duration, what later attempts waited for their permits
    budgets: list[dict[str, JSON]]  # as in `ResponseData`
    error: dict[str, JSON] | None


class ResponseData(TypedDict, total=False):
    message: str  # digest of the assistant message
    finish_reason: str | None
    finish_reason_raw: str | None
    usage: dict[str, JSON] | None
    cost: str | None  # exact decimal, US dollars; None where unpriced or unknown
    prices: dict[str, JSON]
    first_token_ms: float | None  # from the start of the step
    thinking_ms: float | None  # of the streaming time, the part in which thinking arrived
    text_chars: int
    thinking_chars: int
    calls: list[dict[str, JSON]]  # id, name, problem
    attempts: int
    error: dict[str, JSON] | None
    refusal: str | None
    served_model: str | None
    response_id: str | None
    cancelled: bool
    permit_ms: float  # of the duration, what later attempts waited for their permits; only where they did
    budgets: list[dict[str, JSON]]  # a `Crossing` for each part of a budget that it came to first; only where it did
    choice_ignored: bool  # a call was required and none came; only where that is so
    falls_back_to: str  # the route that is asked the same next; only where the call failed and there is one


class ToolCallData(TypedDict, total=False):
    call_id: str
    name: str
    arguments: str  # digest of the arguments (an object, or the raw text where it can't be decoded)
    preview: str  # the arguments on one line, at most 200 characters
    effect: str | None
    group: str | None
    repeat: int  # how many times this very call was made in the run, this one included
    problem: str | None
    ruling: str  # a `Ruling` of the policy; only where a rule fits the call
    rule: str  # the name of the rule that says so
    replaced: str  # a `Mode` of the tools' replacements; only where the tool does not run


class ToolResultData(TypedDict, total=False):
    call_id: str
    name: str
    message: str  # digest of the tool message that the model gets
    is_error: bool
    error_kind: str | None  # a `FailureKind` of the tools, None where it is no error
    preview: str
    bytes: int  # of the whole result, UTF-8
    full: str | None  # digest of the whole result where the model got less
    artifacts: str | None  # digest
    traceback: str | None  # digest
    effect_unknown: bool
    wall_ms: float  # the part of the duration that no earlier call of the run overlaps: these add up
    origin: dict[str, JSON]  # where the result comes from; only where the tool did not run


class ActionData(TypedDict, total=False):
    """Two steps for each proposed action: it is proposed, then decided."""

    event: str  # "proposed" or "decided"
    call_id: str
    name: str
    digest: str  # of the whole turn, which a decision names
    key: str  # of this call and what it would do, for which a decision holds
    kind: str  # an `ActionKind`
    action: str  # digest of what it would do, and why a person is asked; proposed only
    rule: str  # the name of the rule that wants a person, empty where the tool itself does
    position: int  # among the calls of the turn, from 1
    calls: int  # of the turn
    decision: str  # a `DecisionKind`; this and the rest where decided
    by: str  # the name of the user who decided, empty where nobody did
    reason: str | None  # digest of the reason that the model gets
    again: bool  # approved for the rest of the run


class ValidationData(TypedDict, total=False):
    attempt: int  # of the answers that were held to the schema, from 1
    valid: bool
    schema: str  # its name
    schema_sha256: str
    native: bool  # whether the provider held the answer to a schema
    bytes: int  # of the answer
    answer_sha256: str
    fenced: bool  # whether it stood in a Markdown fence
    count: int  # of the objections
    objections: str | None  # digest of the first of them, each with pointer and message
    repair: str | None  # digest of the message that tells the model of them; None where it isn't asked again


class RetryData(TypedDict, total=False):
    attempt: int  # the attempt that failed, from 1
    error: dict[str, JSON]
    wait_s: float


class PermitData(TypedDict, total=False):
    """A call's wait for its permit; one that got its permit at once leaves no step."""

    provider: str  # its slug
    attempt: int  # the attempt that waited, from 1
    position: int  # in line when it came, from 1; 0 where nobody could say
    waiting: int  # calls in that line then, this one among them
    of_site: bool  # they waited under the limit of the whole site; only where that is so
    recounting: bool  # Redis had been started anew; only where that is so
    away: bool  # where permits are kept could not be reached; only where that is so
    granted: bool


class ErrorData(TypedDict, total=False):
    message: str
    advice: str
    kind: str
    traceback: str | None  # digest


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStep:
    """One timed operation of a run. `started_ms` counts from the start of the run, `sequence` from 1."""

    sequence: int
    round: int
    kind: StepKind
    started_ms: float
    duration_ms: float = 0.0
    data: Mapping[str, JSON] = field(default_factory=dict)

    def to_json(self) -> dict[str, JSON]:
        return {
            "sequence": self.sequence,
            "round": self.round,
            "kind": self.kind.value,
            "started_ms": self.started_ms,
            "duration_ms": self.duration_ms,
            "data": dict(self.data),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, JSON]) -> Self:
        return cls(**{**data, "kind": StepKind(data["kind"])})


@dataclass(frozen=True, kw_only=True, slots=True)
class WireExchange:
    """One captured HTTP request and response (raw capture only). Header values that are secret are masked.

    `chunks` are (milliseconds since the request was sent, bytes) as they arrived; `response_body` joins them.
    """

    attempt: int
    method: str
    url: str
    request_headers: Mapping[str, str]
    request_body: bytes
    status: int | None = None
    response_headers: Mapping[str, str] = field(default_factory=dict)
    chunks: tuple[tuple[float, bytes], ...] = ()
    error: str | None = None

    @property
    def response_body(self) -> bytes:
        return b"".join(chunk for _, chunk in self.chunks)


class Listener(Protocol):
    """Receives everything that a trace records, the moment it is recorded. Called on the loop's own thread."""

    def step(self, step: RunStep, contents: Mapping[str, JSON]) -> None:
        """A step, with the contents that it is the first to refer to."""

    def delta(self, round: int, delta: Delta) -> None:
        """A piece of the answer that is being streamed."""

    def waiting(self, round: int, place: Mapping[str, JSON]) -> None:
        """Where a call stands in line for its permit now, as in `PermitData`. With `summary`, a `SummaryInWork`, it is
        the call for that, and without a place it is being made. Empty: what was waited for is over."""

    def exchange(self, sequence: int, exchange: WireExchange) -> None:
        """An HTTP exchange of the request step `sequence`; only where raw capture is on."""

    async def committed(self) -> None:
        """Returns when all that was recorded so far is safely stored."""


class RunTrace:
    """Records the steps of a run; one writer. Steps are handed on to `listener` at once and kept in `steps`."""

    def __init__(
        self,
        listener: Listener | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        offset_ms: float = 0.0,
        steps: Iterable[RunStep] = (),
        contents: Mapping[str, JSON] | None = None,
    ) -> None:
        """`offset_ms` is the run's age when this segment of it starts; `steps` are those of earlier segments."""
        self.steps: list[RunStep] = list(steps)
        self.contents: dict[str, JSON] = dict(contents or {})
        self._listener = listener
        self._clock = clock
        self._zero = clock() - offset_ms / 1000
        self._fresh: dict[str, JSON] = {}

    def now_ms(self) -> float:
        return (self._clock() - self._zero) * 1000

    def keep(self, value: JSON) -> str:
        """Store `value` once and return its digest."""
        return self._keep(digest_of(value), value)

    def keep_message(self, message: Message) -> str:
        return self._keep(message.digest, message.json)

    def _keep(self, digest: str, value: JSON) -> str:
        if digest not in self.contents:
            self.contents[digest] = self._fresh[digest] = value
        return digest

    def record(
        self,
        kind: StepKind,
        *,
        round: int,
        data: Mapping[str, Any],
        started_ms: float | None = None,
        ended_ms: float | None = None,
    ) -> RunStep:
        """Record a step that began at `started_ms` and ended at `ended_ms` (default for both: now)."""
        now = self.now_ms() if ended_ms is None else ended_ms
        started = now if started_ms is None else started_ms
        sequence = self.steps[-1].sequence + 1 if self.steps else 1
        step = RunStep(
            sequence=sequence,
            round=round,
            kind=kind,
            started_ms=round_ms(started),
            duration_ms=round_ms(now - started),
            data=data,
        )
        self.steps.append(step)
        fresh, self._fresh = self._fresh, {}
        if self._listener is not None:
            self._listener.step(step, fresh)
        return step

    def delta(self, round: int, delta: Delta) -> None:
        if self._listener is not None:
            self._listener.delta(round, delta)

    def waiting(self, round: int, place: Mapping[str, JSON]) -> None:
        if self._listener is not None:
            self._listener.waiting(round, place)

    def exchange(self, sequence: int, exchange: WireExchange) -> None:
        if self._listener is not None:
            self._listener.exchange(sequence, exchange)

    async def committed(self) -> None:
        if self._listener is not None:
            await self._listener.committed()

    def to_json(self) -> dict[str, JSON]:
        return {"steps": [step.to_json() for step in self.steps], "contents": self.contents}

    @classmethod
    def from_json(cls, data: Mapping[str, JSON]) -> Self:
        return cls(steps=(RunStep.from_json(step) for step in data["steps"]), contents=data["contents"])


def round_ms(value: float) -> float:
    return round(value, 3)


def messages_of(steps: Iterable[RunStep], sequence: int) -> list[str]:
    """The digests of all messages that the request step `sequence` sent, rebuilt from the differences."""
    digests: list[str] = []
    for step in steps:
        if step.kind in (StepKind.REQUEST, StepKind.ASSEMBLED):
            digests = digests[: step.data["kept"]] + list(step.data["added"])
            if step.sequence == sequence:
                return digests
    raise LookupError(f"no request step {sequence}")
