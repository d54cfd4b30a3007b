"""Findings about the provider's cache: a beginning that changed, a prefix that was not read as it could have been."""

from __future__ import annotations

from collections.abc import Iterator

from llmcore.errors import ConfigurationError
from llmcore.findings.finding import Finding, Severity, duration, rounds_named, tokens
from llmcore.findings.registry import finder
from llmcore.findings.view import ModelRound, RunView
from llmcore.prompts.cache import Change, Reason, Reuse, Sent, reuse_of
from llmcore.providers.prompt_cache import UNKNOWN, CacheRules
from llmcore.providers.registry import adapter_for


@finder
def changed_prefix(view: RunView) -> Iterator[Finding]:
    """What was sent before must come again unchanged, or the provider's cache is of no use from there on."""
    for call, reuse in reuses(view):
        match reuse.change:
            case None:
                continue
            case Change.MESSAGE:
                what = f"Message {reuse.kept + 1} is not the one that the round before had there"
            case Change.COMPACTION:
                what = "Old turns gave way to a summary"
            case Change.TOOLS:
                what = "The tools offered are not those of the round before"
            case Change.MODEL:
                what = "The model is not that of the round before"
            case Change.PROVIDER:
                what = "The provider is not that of the round before"
        yield call.finding(
            "prefix_changed",
            Severity.NOTE if call.asked.get("last") or reuse.change is Change.COMPACTION else Severity.WARNING,
            f"Round {call.number} could not use the provider's cache fully",
            f"{what}: all that comes after was sent anew.",
            _uncached(call),
            tab="cache",
        )


@finder
def cached_below_planned(view: RunView) -> Iterator[Finding]:
    """The beginning came again as it was, long enough to be cached, and the provider read it anew."""
    for reason in (Reason.MISSED, Reason.EXPIRED):
        missed = [(call, reuse) for call, reuse in reuses(view) if reuse.reason is reason]
        if missed:
            call, reuse = missed[0]
            rounds = rounds_named([call.number for call, _ in missed])
            yield call.finding(
                "cached_below_planned",
                Severity.NOTE,
                f"The provider's cache gave less than it could in {rounds}",
                f"Round {call.number} began with the {tokens(reuse.planned)} of the request before it; "
                f"{tokens(reuse.reported or 0)} of them were reported as cached. {_why(reuse)}",
                f"{tokens(sum(reuse.missed for _, reuse in missed))} uncached",
                tab="cache",
            )


def reuses(view: RunView) -> Iterator[tuple[ModelRound, Reuse]]:
    """Each model call with what it had in common with the one before."""
    before: Sent | None = None
    for call in view.rounds:
        now = sent_in(call)
        yield call, reuse_of(before, now, rules_of(str(call.asked.get("adapter")), str(call.asked.get("model"))))
        before = now


def sent_in(call: ModelRound) -> Sent:
    ended = call.response or call.request
    return Sent(
        data=call.asked,
        usage=call.usage,
        answered=call.succeeded,
        started_ms=call.request.started_ms,
        ended_ms=ended.started_ms + ended.duration_ms,
    )


def rules_of(adapter: str, model: str) -> CacheRules:
    """The rules of the cache; unknown ones for a wire format that this version doesn't have."""
    try:
        return adapter_for(adapter).cache_rules(model)
    except ConfigurationError:
        return UNKNOWN


def _why(reuse: Reuse) -> str:
    if reuse.reason is Reason.EXPIRED:
        kept = duration((reuse.rules.lifetime_s or 0) * 1000)
        return f"{duration(reuse.idle_s * 1000)} had passed; such a prefix is kept for about {kept}."
    return "Caches promise nothing: requests may have reached different servers."


def _uncached(call: ModelRound) -> str:
    sent, cached = call.usage.get("input_tokens"), call.usage.get("cache_read_input_tokens")
    return f"{tokens(sent - cached)} uncached" if sent is not None and cached is not None else ""
