"""What a person can open to mend what ended a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from llmcore.errors import ErrorKind
from llmcore.models import LanguageModel, Provider
from llmcore.runs.outcome import EndReason
from llmcore.trace import StepKind
from playground.models import Run
from playground.reading.step_rows import StepRow

# What these are mended by stands in the form of the provider: its key, address, timeouts and limits.
OF_PROVIDER = frozenset(
    {
        ErrorKind.AUTHENTICATION,
        ErrorKind.CONNECTION,
        ErrorKind.MALFORMED_RESPONSE,
        ErrorKind.RATE_LIMIT,
        ErrorKind.TIMEOUT,
    }
)
OF_MODEL = frozenset({ErrorKind.NOT_FOUND, ErrorKind.CONTEXT_LENGTH})


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """A link of the note at a run's end."""

    url: str
    words: str


def way_to_mend(run: Run, rows: Sequence[StepRow], user: Any) -> Way | None:
    """`None` where nothing of this site mends it, or the user may not open it."""
    if run.reason != EndReason.PROVIDER_FAILED or not run.error:
        return None
    asked = next((row.data for row in reversed(rows) if row.kind == StepKind.REQUEST), None)
    kind = run.error.get("kind")
    if asked is None:
        return None
    if kind in OF_PROVIDER and user.has_perm("llmcore.change_provider"):
        return _way_to_provider(asked)
    if kind in OF_MODEL and user.has_perm("llmcore.change_languagemodel"):
        return _way_to_model(asked)
    return None


def _way_to_provider(asked: Mapping[str, Any]) -> Way | None:
    pk = Provider.objects.filter(slug=asked.get("provider")).values_list("pk", flat=True).first()
    return None if pk is None else Way(url=_form("provider", pk), words="Open the provider")


def _way_to_model(asked: Mapping[str, Any]) -> Way | None:
    models = LanguageModel.objects.filter(provider__slug=asked.get("provider"), name=asked.get("model"))
    pk = models.values_list("pk", flat=True).first()
    return None if pk is None else Way(url=_form("languagemodel", pk), words="Open the model")


def _form(name: str, pk: int) -> str:
    return reverse(f"admin:llmcore_{name}_change", args=[pk])
