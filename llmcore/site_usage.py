"""What provider calls leave in this site's database: usage records, and what they taught of a model's tokens."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from llmcore.context.learning import MOST_SAMPLES
from llmcore.messages import ModelResponse
from llmcore.models import LanguageModel, UsageRecord
from llmcore.providers.base import ModelCall
from llmcore.redaction import Redactor
from llmcore.usage import COUNTS, Usage

# The highest number that a column takes.
MAX_COUNT = 2**31 - 1


def learn_tokens(*, provider: str, model: str, tokenizer: str, ratio: float) -> None:
    """Note how many tokens a provider counted for each that was estimated with `tokenizer`, for one run.

    One short write without a lock: of two at the same moment one is lost, which a median doesn't notice.
    """
    rows = LanguageModel.objects.filter(provider__slug=provider, name=model)
    for pk, basis, ratios in rows.values_list("pk", "token_basis", "token_ratios"):
        kept = ratios if basis == tokenizer else []
        LanguageModel.objects.filter(pk=pk).update(token_basis=tokenizer, token_ratios=[*kept, ratio][-MOST_SAMPLES:])


class DatabaseMeter:
    """Writes a usage record for each provider call, on a thread that may use the database.

    `redactor` removes secrets from what the server says of a call.
    """

    def __init__(
        self,
        *,
        run_id: int | None = None,
        user: Any = None,
        configuration_id: int | None = None,
        session: str = "",
        redactor: Redactor | None = None,
    ) -> None:
        self.run_id = run_id
        self.session = session
        self.user_id: int | None = getattr(user, "pk", None)
        self.configuration_id = configuration_id
        self._redactor = redactor or Redactor()

    def record(self, call: ModelCall, response: ModelResponse, cost: Decimal | None) -> None:
        self.record_all([(call, response, cost)])

    def record_all(self, calls: Iterable[tuple[ModelCall, ModelResponse, Decimal | None]]) -> None:
        UsageRecord.objects.bulk_create([self._row(*call) for call in calls])

    def _row(self, call: ModelCall, response: ModelResponse, cost: Decimal | None) -> UsageRecord:
        return UsageRecord(
            configuration_id=self.configuration_id,
            user_id=self.user_id,
            run_id=self.run_id,
            session=self._redactor.known(self.session)[:200],
            purpose=call.purpose.value,
            provider_slug=call.provider.slug,
            model_name=call.model.name,
            served_model=self._redactor.known(response.served_model or "").replace("\0", "")[:200],
            raw=None if response.usage is None else self._redactor.stored(response.usage.raw),
            cost=cost,
            error_kind="" if response.error is None else response.error.kind.value,
            **counts_of(response.usage),
        )


def counts_of(usage: Usage | None) -> dict[str, int | None]:
    """The counts as the columns take them. What a server claims beyond any real count is unknown, not an error."""
    if usage is None:
        return dict.fromkeys(COUNTS)
    counts: dict[str, int | None] = {name: getattr(usage, name) for name in COUNTS}
    return {name: n if n is not None and 0 <= n <= MAX_COUNT else None for name, n in counts.items()}
