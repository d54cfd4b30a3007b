"""Findings about the provider: failures, fallbacks, retries, waiting, another model than asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from llmcore.errors import UNSENT, ErrorKind, advice_of
from llmcore.findings.finding import Finding, Severity, code, quoted, seconds, times
from llmcore.findings.registry import finder
from llmcore.findings.view import ModelRound, RunView

REMOVE_IT = "Remove it from the configuration, or mark the model as not supporting it."
_SLOW_FIRST_TOKEN_MS = 10_000
# These have findings of their own.
_TOLD_ELSEWHERE = frozenset(
    {
        ErrorKind.CONTENT_FILTER,
        ErrorKind.EMPTY_RESPONSE,
        ErrorKind.MALFORMED_TOOL_CALL,
        ErrorKind.TOOL_USE_FAILED,
    }
)
# What a provider may add to a model's name without it being another one: a date or revision, or Ollama's tag.
_REVISION = re.compile(r"[-@:](\d[\w.-]*|latest)")


@finder
def provider_errors(view: RunView) -> Iterator[Finding]:
    for call in view.rounds:
        kind = call.error.get("kind")
        if not kind or kind in _TOLD_ELSEWHERE or call.got.get("falls_back_to"):
            continue
        said, param = quoted(str(call.error.get("message") or "")), call.error.get("param")
        if kind == ErrorKind.INVALID_REQUEST and param:
            yield call.finding(
                "parameter_refused",
                Severity.ERROR,
                f"The provider refused {code(str(param))} in round {call.number}",
                f"{said} {call.error.get('hint') or REMOVE_IT}",
                tab="request",
            )
            continue
        status = call.error.get("status")
        http = f" (HTTP {status})" if status else ""
        failed = "was not made" if kind in UNSENT else f"failed{http}"
        yield call.finding(
            "provider_error",
            Severity.ERROR,
            f"The model call of round {call.number} {failed}",
            f"{said} {advice_of(call.error)}".strip(),
        )


@finder
def fell_back(view: RunView) -> Iterator[Finding]:
    for call in view.rounds:
        if served := call.got.get("falls_back_to"):
            status = call.error.get("status")
            http = f"HTTP {status}: " if status else ""
            yield call.finding(
                "fell_back",
                Severity.WARNING,
                f"Round {call.number} was answered by {code(str(served))} instead of {code(str(call.asked['model']))}",
                f"{http}{quoted(str(call.error.get('message') or ''))} {advice_of(call.error)}".strip(),
            )


@finder
def retries(view: RunView) -> Iterator[Finding]:
    for call in view.rounds:
        if not call.retries:
            continue
        waited = sum(step.data.get("wait_s") or 0.0 for step in call.retries) * 1000
        last = call.retries[-1]
        found = call.finding(
            "retries",
            Severity.WARNING,
            f"The model call of round {call.number} was retried {times(len(call.retries))}",
            quoted(str((last.data.get("error") or {}).get("message") or "")),
            f"{seconds(waited)} of waiting",
            tab="error",
        )
        # The response is that of the attempt that worked.
        yield replace(found, sequence=last.sequence, where=f"Round {call.number}, failed attempt")


@finder
def slow_first_token(view: RunView) -> Iterator[Finding]:
    slow = [call for call in view.rounds if _first_token_ms(call) >= _SLOW_FIRST_TOKEN_MS]
    if slow:
        worst = max(slow, key=_first_token_ms)
        yield worst.finding(
            "slow_first_token",
            Severity.NOTE,
            f"Round {worst.number} waited long for its first token",
            "The server was busy, read a long prompt, or had to load the model first.",
            seconds(_first_token_ms(worst)),
        )


def _first_token_ms(call: ModelRound) -> float:
    """Without what its later attempts waited for permits, of which another finding tells."""
    return float(call.got.get("first_token_ms") or 0.0) - float(call.got.get("permit_ms") or 0.0)


@finder
def other_model(view: RunView) -> Iterator[Finding]:
    for (asked, served), calls in groupby(view.rounds, key=_models):
        if served and not same_model(asked, served):
            yield next(calls).finding(
                "other_model_served",
                Severity.WARNING,
                f"{code(served)} answered instead of {code(asked)}",
                "The provider or a proxy maps the name to another model. Its price and window may differ.",
            )
            return


def _models(call: ModelRound) -> tuple[str, str]:
    return str(call.asked.get("model") or ""), str(call.got.get("served_model") or "")


def same_model(asked: str, served: str) -> bool:
    """Whether the names mean one model: the same but for a vendor's prefix and a revision at the end."""
    asked, served = (re.sub(r"^(?:models/|.*/)", "", name.lower()) for name in (asked, served))
    shorter, longer = sorted((asked, served), key=len)
    return longer.startswith(shorter) and bool(_REVISION.fullmatch(longer[len(shorter) :] or "-0"))
