"""The cache map of a run in figures: what a request had in common with the one before, and what came of it.

A provider's cache is of use as far as a request begins exactly as an earlier one did: tools, system, transcript.
Planned is what the request before it counted, as far as it came again unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from llmcore.providers.prompt_cache import CacheRules

# Where a service's minimum isn't known: that of most.
USUAL_MINIMUM = 1_024
# Counts of providers and of ours, and the last block of a cache, may miss each other by this share.
TOLERANCE = 0.1
# The clocks of two workers may be apart by so much.
CLOCKS_S = 1.0


class Change(StrEnum):
    """What in a request was not as in the request before."""

    PROVIDER = "provider"
    MODEL = "model"
    TOOLS = "tools"
    MESSAGE = "message"
    COMPACTION = "compaction"  # old turns gave way to a summary


class Reason(StrEnum):
    """What came of the planned prefix."""

    FIRST = "first"  # nothing was answered before it in this run
    NOT_YET = "not_yet"  # the other request had no answer yet, so nothing of it was cached
    NO_ANSWER = "no_answer"  # there is no answer that could report anything
    NOT_REPORTED = "not_reported"  # the answer says nothing of a cache
    READ = "read"  # as planned
    CHANGED = "changed"  # the beginning was not the same
    BELOW_MINIMUM = "below_minimum"  # too short to be cached
    EXPIRED = "expired"  # the provider keeps prefixes for a shorter time than passed
    MISSED = "missed"  # none of these: the provider promises nothing


# Where the provider read less than it could have.
MISSES = frozenset({Reason.CHANGED, Reason.EXPIRED, Reason.MISSED})
# Each provider and model has a cache of its own.
ELSEWHERE = frozenset({Change.PROVIDER, Change.MODEL})


@dataclass(frozen=True, kw_only=True, slots=True)
class Sent:
    """A request as it is recorded: its `data`, the usage of its answer, and when it began and was answered."""

    data: Mapping[str, Any]
    usage: Mapping[str, Any]
    answered: bool
    started_ms: float = 0.0
    ended_ms: float = 0.0

    @property
    def counted(self) -> int:
        """Its tokens as the provider counted them, else as they were estimated."""
        counted = self.usage.get("input_tokens")
        return int(counted if counted is not None else self.data.get("input_tokens_estimate") or 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reuse:
    """What a request could have read from the provider's cache, and what it did.

    `kept` of the `sent_before` messages came again as they were. `planned` and `reported` are tokens; `reported` is
    `None` where the provider doesn't say. `idle_s` passed since the request before it was answered; less than 0 where
    that was later. `shortfall` is why less than planned was read of what is the same, where the beginning changed too.
    """

    reason: Reason
    rules: CacheRules
    kept: int = 0
    sent_before: int = 0
    change: Change | None = None
    planned: int = 0
    reported: int | None = None
    idle_s: float = 0.0
    shortfall: Reason | None = None

    @property
    def missed(self) -> int:
        """Planned tokens that were not read."""
        return 0 if self.reported is None else max(self.planned - self.reported, 0)

    @property
    def slack(self) -> float:
        """So many tokens more or less than planned say nothing."""
        return max(self.rules.step_tokens, self.planned * TOLERANCE)

    @property
    def minimum(self) -> int:
        return USUAL_MINIMUM if self.rules.minimum_tokens is None else self.rules.minimum_tokens


def reuse_of(before: Sent | None, now: Sent, rules: CacheRules, *, share: float | None = None) -> Reuse:
    """`share` is how much of the request before is the same, where that is known better than by counting messages."""
    reported = now.usage.get("cache_read_input_tokens")
    if before is None:
        return Reuse(reason=Reason.FIRST, rules=rules, reported=reported)
    kept, sent = now.data.get("kept") or 0, before.data.get("messages") or 0
    found = Reuse(
        reason=Reason.FIRST,
        rules=rules,
        kept=min(kept, sent),
        sent_before=sent,
        reported=reported,
        idle_s=(now.started_ms - before.ended_ms) / 1000,
    )
    if not before.answered:
        return found
    change = _change(before.data, now.data, kept, sent)
    found = replace(found, change=change, planned=_planned(before.counted, change, kept, sent, share))
    # Where only messages were counted, nothing can be said of a part of them.
    shortfall = _shortfall(found) if change is not None and share is not None else None
    return replace(found, reason=_reason(found, answered=now.answered), shortfall=shortfall)


def _change(before: Mapping[str, Any], now: Mapping[str, Any], kept: int, sent: int) -> Change | None:
    """What stands first in the request counts: what comes after it is sent anew anyway."""
    if any(before.get(name) != now.get(name) for name in ("provider", "adapter")):
        return Change.PROVIDER
    if before.get("model") != now.get("model"):
        return Change.MODEL
    if before.get("tools") != now.get("tools"):
        return Change.TOOLS
    if now.get("compacted"):
        return Change.COMPACTION
    # A request that ends within the one before it changed nothing of it.
    return Change.MESSAGE if kept < min(sent, now.get("messages") or sent) else None


def _planned(counted: int, change: Change | None, kept: int, sent: int, share: float | None) -> int:
    if change in ELSEWHERE:
        return 0
    if change is None and kept >= sent:
        return counted
    if share is None:
        share = 0.0 if change is Change.TOOLS else kept / sent
    return round(counted * share)


def _reason(reuse: Reuse, *, answered: bool) -> Reason:
    if not answered:
        return Reason.NO_ANSWER
    if reuse.reported is None:
        return Reason.NOT_REPORTED
    if reuse.change is not None:
        return Reason.CHANGED
    return _shortfall(reuse) or Reason.READ


def _shortfall(reuse: Reuse) -> Reason | None:
    """Why less than planned was read; `None` where it wasn't less."""
    if reuse.missed <= reuse.slack:
        return None
    if reuse.idle_s < -CLOCKS_S:
        return Reason.NOT_YET
    if reuse.planned < reuse.minimum + reuse.rules.step_tokens:
        return Reason.BELOW_MINIMUM
    if reuse.rules.lifetime_s is not None and reuse.idle_s > reuse.rules.lifetime_s:
        return Reason.EXPIRED
    return Reason.MISSED
