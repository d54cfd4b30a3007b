"""The ledger of skills: each one that a prompt was to have, whether it has it, how it came there or why not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from llmcore.prompts.provenance import Dropped, DropReason, Segment, Source


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerEntry:
    """A skill of the prompt, or one that was left out. `why` says how it came there, or why it didn't; `tokens` are
    those that it takes, or would have taken."""

    source_id: str
    label: str
    injected: bool
    forced: bool
    why: str
    tokens: int
    object_id: int | None = None
    version: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SkillLedger:
    """All skills in the order of the prompt, those left out last."""

    entries: tuple[LedgerEntry, ...] = ()

    @property
    def injected(self) -> int:
        return sum(entry.injected for entry in self.entries)

    @property
    def tokens(self) -> int:
        """What the injected ones take."""
        return sum(entry.tokens for entry in self.entries if entry.injected)


def skill_ledger(segments: Iterable[Segment], dropped: Iterable[Dropped]) -> SkillLedger:
    """The skills among the sources of a prompt. One that was chosen twice is in the prompt: it stands here once."""
    injected = (segment for segment in segments if segment.source is Source.SKILL and segment.source_id)
    left_out = (item for item in dropped if item.source is Source.SKILL and item.reason is not DropReason.DUPLICATE)
    return SkillLedger(entries=(*map(_injected, injected), *map(_left_out, left_out)))


def _injected(segment: Segment) -> LedgerEntry:
    return LedgerEntry(
        source_id=segment.source_id,
        label=segment.label,
        injected=True,
        forced=segment.forced,
        why=segment.note or ("forced for this run" if segment.forced else "in the configuration"),
        tokens=segment.tokens,
        object_id=segment.object_id,
        version=segment.version,
    )


def _left_out(item: Dropped) -> LedgerEntry:
    return LedgerEntry(
        source_id=item.source_id,
        label=item.label,
        injected=False,
        forced=item.forced,
        why=item.detail,
        tokens=item.tokens,
        object_id=item.object_id,
    )
