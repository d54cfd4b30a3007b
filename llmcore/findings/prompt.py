"""Findings about what was sent: left out, hidden, mended, changed, too long."""

from __future__ import annotations

from collections.abc import Iterator

from llmcore.findings.finding import Finding, Severity, bounded, code, percent, quoted, rounds_named, tokens
from llmcore.findings.registry import finder
from llmcore.findings.view import ModelRound, RunView
from llmcore.prompts.provenance import DropReason, Source

_NEARLY_FULL = 0.8


@finder
def left_out_sources(view: RunView) -> Iterator[Finding]:
    for item in view.dropped:
        if item.source not in (Source.SKILL, Source.SNIPPET) or item.reason is DropReason.OUTSIDE_PACK:
            continue
        # A source that was chosen twice is in the prompt all the same.
        duplicate = item.reason is DropReason.DUPLICATE
        kind = item.source.value.capitalize()
        yield view.prompt_finding(
            f"{item.source.value}_left_out",
            Severity.NOTE if duplicate else Severity.WARNING,
            f"{kind} {code(item.source_id)} was " + ("chosen twice" if duplicate else "left out"),
            quoted(item.detail),
            tokens(item.tokens) if item.tokens and not duplicate else "",
        )


@finder
def hidden_system_prompt(view: RunView) -> Iterator[Finding]:
    for item in view.dropped:
        if item.reason is DropReason.OVERRIDDEN:
            yield view.prompt_finding(
                "override_hides_system_prompt",
                Severity.NOTE,
                "The override hides the system prompt",
                f"{quoted(item.detail)} To add to it instead, append the override.",
                tokens(item.tokens),
            )


@finder
def mended_transcript(view: RunView) -> Iterator[Finding]:
    for call in view.rounds:
        if repairs := call.asked.get("repairs"):
            more = f" And {len(repairs) - 1} more." if len(repairs) > 1 else ""
            yield call.finding(
                "transcript_repaired",
                Severity.WARNING,
                f"The transcript was mended before round {call.number}",
                f"{quoted(bounded(str(repairs[0]), 180).capitalize())}{more}",
                tab="messages",
            )


@finder
def context_nearly_full(view: RunView) -> Iterator[Finding]:
    above = [call for call in view.rounds if _fullness(call, view) > _NEARLY_FULL]
    if above:
        peak = max(above, key=lambda call: _fullness(call, view))
        used, window = peak.input_tokens, _window(peak, view) or 0
        about = "" if peak.usage.get("input_tokens") is not None else "about "
        yield peak.finding(
            "context_nearly_full",
            Severity.WARNING,
            f"The prompt took {percent(used, window)} of the model's window",
            f"Round {peak.number} sent {about}{used:,} of {tokens(window)}; above 80 % in "
            f"{rounds_named([call.number for call in above])}. Shorten the prompt or what tools return.",
            tokens(used),
            tab="context" if peak.context else "tokens",
        )


def _fullness(call: ModelRound, view: RunView) -> float:
    window = _window(call, view)
    return call.input_tokens / window if window else 0.0


def _window(call: ModelRound, view: RunView) -> int | None:
    """That of the model that was asked, which may be a fallback."""
    return call.context.data["window"] if call.context else view.context_window
