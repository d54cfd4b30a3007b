"""Makes a structured completion with the loop of every run: the same client, fallbacks, cancel and trace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from llmcore.configuration import Route
from llmcore.errors import LLMError, ToolError
from llmcore.messages import JSON, ModelResponse
from llmcore.metering.client import Meter, ModelClient
from llmcore.providers.base import ModelCall
from llmcore.runs.loop import ToolLoop
from llmcore.runs.outcome import EndReason, Outcome
from llmcore.runs.state import RunState
from llmcore.structured.expected import asked_of
from llmcore.structured.recorder import UseRecorder
from llmcore.structured.request import Ready
from llmcore.structured.response_schema import ResponseSchema
from llmcore.structured.validation import Objection
from llmcore.tools.conversion import converter_of
from llmcore.trace import RunTrace
from llmcore.usage import Usage, add_up


class CompletionFailed(LLMError):
    """A structured completion ended without a valid answer.

    `outcome` says how, with the answer as far as there is one; `objections` what is wrong with that, where it was held
    to its schema.
    """

    def __init__(self, prompt: str, outcome: Outcome, objections: tuple[Objection, ...] = ()) -> None:
        self.prompt = prompt
        self.outcome = outcome
        self.objections = objections
        super().__init__(f"The prompt “{prompt}” got no valid answer ({outcome.reason.value}). {outcome.detail}")


@dataclass(frozen=True, kw_only=True, slots=True)
class StructuredAnswer:
    """A valid answer. `data` are its bytes exactly as the model wrote them, `value` is their JSON, `target` that made
    into the type of the request.

    `provider` and `model` are those that answered, `usage` and `cost` the sums over all `attempts`. `derived` is the
    schema that the provider held the answer to; `None` where the prompt asked for it.
    """

    data: bytes
    value: JSON
    target: Any
    configuration: str
    provider: str
    model: str
    usage: Usage
    cost: Decimal | None
    attempts: int
    native: bool
    schema: ResponseSchema
    derived: ResponseSchema | None
    checkpoint_key: str
    manifest: dict[str, JSON]


@dataclass(slots=True)
class _Tally:
    """Counts what the calls of one completion use, and tells the meter of each."""

    meter: Meter | None
    calls: list[tuple[ModelCall, ModelResponse, Decimal | None]] = field(default_factory=list)

    def record(self, call: ModelCall, response: ModelResponse, cost: Decimal | None) -> None:
        self.calls.append((call, response, cost))
        if self.meter is not None:
            self.meter.record(call, response, cost)

    @property
    def usage(self) -> Usage:
        return add_up(response.usage for _, response, _ in self.calls)

    @property
    def cost(self) -> Decimal | None:
        """Unknown where that of one call is."""
        costs = [cost for _, _, cost in self.calls if cost is not None]
        return sum(costs, Decimal()) if len(costs) == len(self.calls) else None


async def complete(
    ready: Ready,
    *,
    client: Callable[[Meter], ModelClient],
    meter: Meter | None = None,
    recorder: UseRecorder | None = None,
    trace: RunTrace | None = None,
    cancel: asyncio.Event | None = None,
    redact: Callable[[str], str] = str,
) -> StructuredAnswer:
    """Ask until the answer is valid or there is no repair left; CompletionFailed says how it ended otherwise.

    `client` makes a client that reports to the meter it is given. `redact` cleans what an error says.
    """
    configuration, tally = ready.configuration, _Tally(meter)
    loop = ToolLoop(
        client=client(tally),
        provider=configuration.provider,
        model=configuration.model,
        fallbacks=configuration.fallbacks,
        tools={},
        trace=trace,
        cancel=cancel,
        redact=redact,
    )
    end = await loop.run(initial_state(ready))
    outcome = end.outcome or Outcome(reason=EndReason.HALTED)
    if recorder is not None:
        for call, _, _ in tally.calls:
            recorder.record(configuration, Route(provider=call.provider, model=call.model))
    if outcome.reason is not EndReason.COMPLETED:
        check = ready.expected.check(outcome.answer) if outcome.reason is EndReason.INVALID_ANSWER else None
        outcome = replace(outcome, detail=redact(outcome.detail))
        raise CompletionFailed(ready.request.prompt, outcome, check.objections if check else ())
    return _answer(ready, outcome, tally, attempts=end.state.repairs_used + 1, redact=redact)


def initial_state(ready: Ready) -> RunState:
    """What the loop starts from."""
    return RunState(
        messages=ready.assembly.messages,
        parameters=ready.configuration.parameters,
        limits=ready.configuration.limits,
        expected=ready.expected,
    )


def _answer(
    ready: Ready, outcome: Outcome, tally: _Tally, *, attempts: int, redact: Callable[[str], str]
) -> StructuredAnswer:
    check, schema = ready.expected.check(outcome.answer), ready.expected.schema
    call = tally.calls[-1][0]
    asked = asked_of(Route(provider=call.provider, model=call.model), schema)
    return StructuredAnswer(
        data=check.data,
        value=check.value,
        target=_made_into(ready, check.value, redact),
        configuration=ready.configuration.slug,
        provider=call.provider.slug,
        model=call.model.name,
        usage=tally.usage,
        cost=tally.cost,
        attempts=attempts,
        native=asked.native,
        schema=schema,
        derived=ResponseSchema.of(schema.id, asked.wire_schema) if asked.native else None,
        checkpoint_key=ready.rendered.checkpoint_key,
        manifest=ready.manifest(),
    )


def _made_into(ready: Ready, value: JSON, redact: Callable[[str], str]) -> Any:
    """The value as the type of the request; CompletionFailed where the schema lets through what the type doesn't. What
    the type says of it may quote it."""
    target = ready.request.target
    if target is None:
        return None
    try:
        return converter_of(target)(value, "")
    except (ToolError, TypeError, KeyError, ValueError, AttributeError) as error:
        detail = f"The valid answer can't be made into {getattr(target, '__qualname__', target)}: {redact(str(error))}"
        raise CompletionFailed(ready.request.prompt, Outcome(reason=EndReason.INVALID_ANSWER, detail=detail)) from error
