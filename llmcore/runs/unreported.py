"""What earlier segments of a run used whose provider counted nothing, from their recorded steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from llmcore.budgets.base import Amounts
from llmcore.configuration import LanguageModel, Route
from llmcore.context.estimator import Estimator
from llmcore.errors import ProviderError
from llmcore.messages import JSON, Message, ModelResponse
from llmcore.metering.affording import used_by
from llmcore.trace import RunStep, StepKind
from llmcore.usage import Usage


def unreported(steps: Sequence[RunStep], contents: Mapping[str, JSON], routes: Iterable[Route]) -> Amounts:
    """As it is estimated while the calls are made, so that a ceiling counts the same before and after a run has waited:
    an answer that broke off, an aborted one, one whose worker was lost. What a provider counted is not in it, nor
    what a call used whose model isn't one of `routes` (any more). Attempts before the last of a call are not recorded
    with their sizes, so they are not in it either."""
    models = {(route.provider.slug, route.model.name): route.model for route in routes}
    total, asked = Amounts(), None
    prompt = 0
    for step in steps:
        data = step.data
        match step.kind:
            case StepKind.REQUEST:
                total += _lost(asked, prompt)
                asked = models.get((data.get("provider", ""), data["model"]))
                prompt = data.get("input_tokens_estimate") or 0
            case StepKind.CONTEXT:
                prompt = data["used"]
            case StepKind.RESPONSE:
                total += _of_answer(asked, data, contents, prompt)
                asked = None
            case StepKind.COMPACTION:
                model = models.get((data.get("provider") or "", data.get("model") or ""))
                record = contents.get(data.get("record") or "")
                if model is not None and isinstance(record, str):
                    total += _of_answer(model, data, contents, Estimator.of(model).text(record))
    return total + _lost(asked, prompt)


def _of_answer(
    model: LanguageModel | None, data: Mapping[str, JSON], contents: Mapping[str, JSON], prompt: int
) -> Amounts:
    usage = Usage.from_json(data["usage"]) if data.get("usage") else None
    if model is None or not data.get("attempts"):
        return Amounts()
    if usage is not None and None not in (usage.input_tokens, usage.output_tokens):
        return Amounts()
    message = contents.get(data.get("message") or "")
    response = ModelResponse(
        message=Message.from_json(message) if message else Message(role="assistant"),
        usage=usage,
        error=ProviderError.from_json(data["error"]) if data.get("error") else None,
    )
    return used_by(model, response, prompt=prompt)


def _lost(model: LanguageModel | None, prompt: int) -> Amounts:
    """A request without a response was sent, and nobody knows more of it."""
    return Amounts() if model is None else used_by(model, ModelResponse(cancelled=True), prompt=prompt)
