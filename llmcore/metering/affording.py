"""What a call takes of the budgets: at most before it goes out, and in truth once it has ended."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import ceil

from llmcore.budgets.base import Amounts, BudgetExceeded, Budgets, BudgetsAway, Need, Reservation
from llmcore.configuration import LanguageModel
from llmcore.context.budget import longest_answer, window_use
from llmcore.context.estimator import Estimator
from llmcore.context.tokens import Share
from llmcore.errors import ErrorKind, ProviderError
from llmcore.messages import ModelResponse
from llmcore.metering.interrupt import Interrupt
from llmcore.metering.sending import Sending
from llmcore.providers.base import ModelCall
from llmcore.usage import MILLION, Prices, Usage

# No text of a request has more tokens than a third of its bytes, give or take little.
BYTES_PER_TOKEN = 3
# What is reserved for an answer that nothing bounds.
UNBOUNDED_ANSWER = 8_192
# A count beyond this is no count.
MOST_TOKENS = 2**31 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Afforded:
    """Whether an attempt may go out: with its `reservation`, or not, since it was `refused`; with neither, it was
    cancelled meanwhile."""

    need: Need
    reservation: Reservation | None = None
    refused: ProviderError | None = None

    async def settle(self, sending: Sending, response: ModelResponse) -> None:
        """Count what the attempt used, and note what of the budgets that crossed."""
        if self.reservation is not None:
            used = used_by(sending.call.model, response, prompt=self.need.sent.tokens)
            sending.crossings.extend(await self.reservation.settle(used))


async def afford(budgets: Budgets, sending: Sending, *, within_s: float) -> Afforded:
    """Reserve what an attempt takes that ends within so many seconds."""
    need = need_of(sending.call, input_tokens=sending.input_tokens, body_bytes=len(sending.request.body))
    reservation = None
    try:
        async with Interrupt(sending.cancel):
            reservation = await budgets.reserve(need, within_s=within_s)
    except (BudgetExceeded, BudgetsAway) as refusal:
        return Afforded(need=need, refused=refusal.as_error())
    return Afforded(need=need, reservation=reservation)


def need_of(call: ModelCall, *, input_tokens: int | None, body_bytes: int) -> Need:
    """What `call` takes: a prompt of `input_tokens` (`None`: as many as its bytes may hold), none of it cached, and the
    longest answer it may get."""
    prompt = ceil(body_bytes / BYTES_PER_TOKEN) if input_tokens is None else input_tokens
    answer = _longest_answer(call, prompt)
    prices = call.model.prices
    cost = _dearest(prices, prompt=prompt, answer=answer)
    return Need(
        model=call.model.label or call.model.name,
        most=Amounts(requests=1, tokens=prompt + answer, cost=cost),
        sent=Amounts(requests=1, tokens=prompt, cost=prices.cost(Usage(input_tokens=prompt, output_tokens=0))),
    )


def used_by(model: LanguageModel, response: ModelResponse, *, prompt: int) -> Amounts:
    """What a call of `model` used. Where its provider didn't count, it is not nothing: the `prompt` as estimated,
    and what had arrived of the answer. A call that was refused used no tokens."""
    usage = response.usage or Usage()
    read, written = _credible(usage.input_tokens), _credible(usage.output_tokens)
    if read is None and written is None and _refused(response):
        return Amounts(requests=1)
    if read is None or written is None:
        arrived = response.message.parts or response.tool_calls
        usage = Usage(
            input_tokens=prompt if read is None else read,
            output_tokens=written or (Estimator.of(model).message(response.message) if arrived else 0),
        )
    tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0)
    return Amounts(requests=1, tokens=tokens, cost=model.prices.cost(usage))


def _dearest(prices: Prices, *, prompt: int, answer: int) -> Decimal | None:
    """The most that prompt and answer cost; `None` where one of the prices that may apply is unknown."""
    costs = []
    for each in prices.up_to(prompt):
        if each.input is None or each.output is None:
            return None
        dearest = max(each.input, each.cache_creation or Decimal(0))
        costs.append((prompt * dearest + answer * each.output) / MILLION)
    return max(costs)


def _longest_answer(call: ModelCall, prompt: int) -> int:
    use = window_use({Share.USER: prompt}, model=call.model, parameters=call.parameters, doubtful=0, percent=0)
    longest = longest_answer(use, model=call.model, parameters=call.parameters)
    return UNBOUNDED_ANSWER if longest is None else longest


def _refused(response: ModelResponse) -> bool:
    """Whether nothing was generated: the server said no, or could not be reached."""
    error = response.error
    if error is None or response.message.parts or response.tool_calls:
        return False
    return (error.status or 0) >= 400 or error.kind is ErrorKind.CONNECTION


def _credible(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= MOST_TOKENS else None
