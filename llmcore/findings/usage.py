"""Findings about counted tokens and their price: missing, contradictory, unpriced."""

from __future__ import annotations

from collections.abc import Iterator

from llmcore.findings.finding import Finding, Severity, code, rounds_named, tokens
from llmcore.findings.registry import finder
from llmcore.findings.view import ModelRound, RunView
from llmcore.usage import Prices

# Estimates err by less than half; a count that is lower still is something else.
_FAR_UNDER = 0.4
_WORTH_A_LOOK = 2_000


@finder
def missing_usage(view: RunView) -> Iterator[Finding]:
    """Of calls that came to an answer; of an aborted one nobody expects a count."""
    answered = [call for call in view.rounds if call.succeeded]
    missing = [
        call for call in answered if call.usage.get("input_tokens") is None or call.usage.get("output_tokens") is None
    ]
    if missing:
        everywhere = len(missing) == len(answered)
        where = "every round" if everywhere else rounds_named([call.number for call in missing])
        yield missing[0].finding(
            "usage_missing",
            Severity.WARNING,
            f"The provider reported no token counts in {where}",
            "Tokens and cost are unknown there; they are left blank, not taken for 0.",
            f"{len(missing)} of {len(answered)} calls",
            tab="tokens",
        )


@finder
def inconsistent_usage(view: RunView) -> Iterator[Finding]:
    for call in view.rounds:
        if contradiction := _contradiction(call):
            yield call.finding(
                "usage_inconsistent",
                Severity.WARNING,
                f"The token counts of round {call.number} don't add up",
                f"{contradiction} The figures are shown as the provider reported them.",
                tab="tokens",
            )


def _contradiction(call: ModelRound) -> str | None:
    count = call.usage.get
    read, written, total = count("input_tokens"), count("output_tokens"), count("total_tokens")
    cached = (count("cache_read_input_tokens") or 0) + (count("cache_creation_input_tokens") or 0)
    thought = count("reasoning_output_tokens")
    if read is not None and written is not None and total is not None and read + written != total:
        return f"{read:,} in and {written:,} out are not {total:,} in total."
    if read is not None and cached > read:
        return f"More tokens were cached ({cached:,}) than sent ({read:,})."
    if written is not None and thought is not None and thought > written:
        return f"Thinking ({thought:,}) is more than the whole output ({written:,})."
    return None


@finder
def far_fewer_tokens_than_sent(view: RunView) -> Iterator[Finding]:
    """Some servers drop the start of a prompt that is too long for them, and say nothing."""
    for call in view.rounds:
        counted, estimate = call.usage.get("input_tokens"), call.asked.get("input_tokens_estimate") or 0
        if counted is None or estimate < _WORTH_A_LOOK or counted >= estimate * _FAR_UNDER:
            continue
        yield call.finding(
            "silent_truncation",
            Severity.WARNING,
            f"The server may have cut the prompt of round {call.number}",
            f"It counted {tokens(counted)} of a prompt estimated at {estimate:,}. Its window may be smaller than this "
            "model's setting says.",
            f"−{tokens(estimate - counted)}",
            tab="tokens",
        )
        # The following rounds only say the same.
        return


@finder
def unpriced_model(view: RunView) -> Iterator[Finding]:
    for call in view.rounds:
        prices = Prices.from_json(call.got.get("prices") or {})
        tier = prices.tier_of((call.got.get("usage") or {}).get("input_tokens") or 0)
        if call.succeeded and not (tier.prices if tier else prices).known:
            of_tier = f" for prompts of more than {tier.above:,} tokens" if tier and prices.known else ""
            yield call.finding(
                "unpriced_model",
                Severity.NOTE,
                f"The model {code(str(call.asked.get('model') or ''))} has no price{of_tier}",
                "Costs are left blank. Enter its prices to see them.",
                tab="tokens",
            )
            return
