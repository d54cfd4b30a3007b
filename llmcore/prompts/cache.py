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


class Change(StrEnum):
    """What in a request was not as in the request before."""

    MODEL = "model"
    TOOLS = "tools"
    MESSAGE = "message"


class Reason(StrEnum):
    """What came of the planned prefix."""

    FIRST = "first"  # nothing was answered before it in this run
    NO_ANSWER = "no_answer"  # there is no answer that could report anything
    NOT_REPORTED = "not_reported"  # the answer says nothing of a cache
    READ = "read"  # as planned
    CHANGED = "changed"  # the beginning was not the same
    BELOW_MINIMUM = "below_minimum"  # too short to be cached
    EXPIRED = "expired"  # the provider keeps prefixes for a shorter time than passed
    MISSED = "missed"  # none of these: the provider promises nothing


# Where the provider read less than it could have.
MISSES = frozenset({Reason.CHANGED, Reason.EXPIRED, Reason.MISSED})


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
    `None` where the provider doesn't say. `idle_s` passed since the request before it was answered.
    """

    reason: Reason
    rules: CacheRules
    kept: int = 0
    sent_before: int = 0
    change: Change | None = None
    planned: int = 0
    reported: int | None = None
    idle_s: float = 0.0

    @property
    def missed(self) -> int:
        """Planned tokens that were not read."""
        return 0 if self.reported is None else max(self.planned - self.reported, 0)

    @property
    def minimum(self) -> int:
        return USUAL_MINIMUM if self.rules.minimum_tokens is None else self.rules.minimum_tokens


def reuse_of(before: Sent | None, now: Sent, rules: CacheRules, *, share: float | None = None) -> Reuse:
    """`share` is how much of the request before is the same, where that is known better than by counting messages."""
    if before is None or not before.answered:
        return Reuse(reason=Reason.FIRST, rules=rules, reported=now.usage.get("cache_read_input_tokens"))
    kept, sent = now.data.get("kept") or 0, before.data.get("messages") or 0
    change = _change(before.data, now.data, kept, sent)
    planned = before.counted
    if change is Change.MESSAGE:
        planned = round(planned * (share if share is not None else kept / sent))
    elif change is not None:
        planned = round(planned * share) if share is not None else 0
    reported = now.usage.get("cache_read_input_tokens")
    idle_s = max(now.started_ms - before.ended_ms, 0.0) / 1000
    found = Reuse(
        reason=Reason.MISSED,
        rules=rules,
        kept=min(kept, sent),
        sent_before=sent,
        change=change,
        planned=planned,
        reported=reported,
        idle_s=idle_s,
    )
    return replace(found, reason=_reason(found, answered=now.answered))


def _change(before: Mapping[str, Any], now: Mapping[str, Any], kept: int, sent: int) -> Change | None:
    """What stands first in the request counts: what comes after it is sent anew anyway."""
    if before.get("model") != now.get("model"):
        return Change.MODEL
    if before.get("tools") != now.get("tools"):
        return Change.TOOLS
    return Change.MESSAGE if kept < sent else None


def _reason(reuse: Reuse, *, answered: bool) -> Reason:
    if not answered:
        return Reason.NO_ANSWER
    if reuse.reported is None:
        return Reason.NOT_REPORTED
    if reuse.change is not None:
        return Reason.CHANGED
    slack = max(reuse.rules.step_tokens, reuse.planned * TOLERANCE)
    if reuse.missed <= slack:
        return Reason.READ
    if reuse.planned < reuse.minimum + reuse.rules.step_tokens:
        return Reason.BELOW_MINIMUM
    if reuse.rules.lifetime_s is not None and reuse.idle_s > reuse.rules.lifetime_s:
        return Reason.EXPIRED
    return Reason.MISSED
