"""What a provider's answer, or the lack of one, means for the run."""

from __future__ import annotations

from llmcore.context.budget import WindowUse
from llmcore.errors import UNSENT, ErrorKind, ProviderError
from llmcore.messages import FinishReason, ModelResponse
from llmcore.providers.base import ModelCall
from llmcore.runs.outcome import EndReason, Outcome
from llmcore.runs.state import Progress
from llmcore.structured.expected import Expected
from llmcore.structured.validation import Check

# Failures that have an end of their own; all others are `provider_failed`.
END_OF_FAILURE = {
    ErrorKind.CONTENT_FILTER: EndReason.CONTENT_FILTERED,
    ErrorKind.CONTEXT_LENGTH: EndReason.CONTEXT_EXHAUSTED,
    ErrorKind.EMPTY_RESPONSE: EndReason.EMPTY_ANSWER,
    ErrorKind.BUDGET: EndReason.BUDGET_EXHAUSTED,
    ErrorKind.BUDGETS_AWAY: EndReason.INTERRUPTED,
}


def of_failure(response: ModelResponse) -> Outcome | None:
    """How a call ends the run that gave no answer to go on with. What did arrive is the answer as far as it came."""
    if response.cancelled:
        return Outcome(reason=EndReason.CANCELLED, detail="The run was cancelled.", answer=response.text)
    if response.error is not None:
        reason = END_OF_FAILURE.get(response.error.kind, EndReason.PROVIDER_FAILED)
        detail = response.error.message if response.error.kind in UNSENT else str(response.error)
        return Outcome(reason=reason, detail=detail, answer=response.text, error=response.error)
    if response.finish_reason is FinishReason.ERROR:
        said = response.finish_reason_raw or "error"
        error = ProviderError(kind=ErrorKind.SERVER, message=f"the provider stopped with {said!r}")
        return Outcome(reason=EndReason.PROVIDER_FAILED, detail=str(error), answer=response.text, error=error)
    return None


def cancelled(progress: Progress) -> Outcome:
    return Outcome(reason=EndReason.CANCELLED, detail="The run was cancelled.", answer=progress.answer)


def without_room(progress: Progress, use: WindowUse, call: ModelCall) -> Outcome:
    """The end of a run whose next request has no room in the model's window; none is made."""
    asked = call.parameters.max_tokens
    wanted = f", and max tokens asks for {asked:,}" if asked else ""
    detail = (
        f"The prompt of round {progress.rounds_used + 1} takes about {use.used:,} tokens, give or take {use.margin:,}"
        f"{wanted}; the window of {call.model.label or call.model.name} has {use.window:,}. Nothing was sent. Shorten "
        "the prompt or what tools return, or choose a model with a larger window."
    )
    return Outcome(reason=EndReason.CONTEXT_EXHAUSTED, detail=detail, answer=progress.answer)


def refused(response: ModelResponse) -> Outcome:
    detail = f"The model refused: {response.refusal}"
    return Outcome(reason=EndReason.CONTENT_FILTERED, detail=detail, answer=response.text)


def of_answer(progress: Progress) -> Outcome | None:
    """How the model's last answer ends the run, `None` where the loop goes on."""
    answer = progress.answer
    match progress.finish_reason:
        case FinishReason.LENGTH:
            detail = "The answer was cut off at its token limit."
            return Outcome(reason=EndReason.TRUNCATED, detail=detail, answer=answer)
        case FinishReason.CONTENT_FILTER:
            detail = "The provider's content filter stopped the answer."
            return Outcome(reason=EndReason.CONTENT_FILTERED, detail=detail, answer=answer)
        case FinishReason.STOP if not answer.strip():
            detail = "The model answered with no text and no tool call."
            return Outcome(reason=EndReason.EMPTY_ANSWER, detail=detail)
        case FinishReason.STOP:
            return Outcome(reason=EndReason.COMPLETED, answer=answer)
    return None


def invalid(expected: Expected, check: Check, answer: str) -> Outcome:
    """The answer isn't what it has to be, and the model has had its chances."""
    found = "1 objection" if check.count == 1 else f"{check.count} objections"
    detail = f"The answer doesn't fit the schema “{expected.schema.id}”: {found}."
    return Outcome(reason=EndReason.INVALID_ANSWER, detail=detail, answer=answer)


def at_round_limit(progress: Progress, max_rounds: int) -> Outcome:
    detail = f"The limit of {max_rounds} rounds was reached; the last answer had to be given without tools."
    return Outcome(reason=EndReason.MAX_ROUNDS, detail=detail, answer=progress.answer)
