"""The order of the pieces a prompt may take: the configuration's own first, then those that a run forces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from llmcore.prompts.provenance import Dropped, DropReason, Source

FORCED_THOUGH_DISABLED = "forced although disabled"


class Piece(Protocol):
    """A stored text that can go into a prompt: a skill or a snippet."""

    @property
    def slug(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def body(self) -> str: ...
    @property
    def enabled(self) -> bool: ...
    @property
    def id(self) -> int | None: ...


P = TypeVar("P", bound=Piece)


@dataclass(frozen=True, slots=True)
class Candidate(Generic[P]):
    """A piece in its place, with how it got there: forced, or the `reason` where its configuration doesn't list it."""

    piece: P
    forced: bool
    reason: str = ""

    @property
    def note(self) -> str:
        return self.reason if self.piece.enabled else FORCED_THOUGH_DISABLED

    def drop(self, source: Source, reason: DropReason, detail: str) -> Dropped:
        return Dropped(
            source=source,
            source_id=self.piece.slug,
            label=self.piece.name,
            reason=reason,
            detail=detail,
            forced=self.forced,
            object_id=self.piece.id,
        )


def candidates(
    source: Source, configured: Iterable[P], forced: Sequence[P], *, reason: Callable[[P], str] = lambda piece: ""
) -> tuple[list[Candidate[P]], list[Dropped]]:
    """The pieces that are switched on, without duplicates: of those with the same slug the first counts. `reason` says
    why a configured piece is there, where the configuration doesn't name it.

    A forced piece needs not be switched on, also where the configuration has it already.
    """
    forced_slugs = {piece.slug for piece in forced}
    usable: list[Candidate[P]] = []
    dropped: list[Dropped] = []
    seen: set[str] = set()
    for piece in configured:
        candidate = Candidate(piece, forced=False, reason=reason(piece))
        if piece.slug in seen or (not piece.enabled and piece.slug in forced_slugs):
            continue
        seen.add(piece.slug)
        if piece.enabled:
            usable.append(candidate)
        else:
            dropped.append(candidate.drop(source, DropReason.DISABLED, "It is switched off."))
    for piece in forced:
        candidate = Candidate(piece, forced=True)
        if piece.slug in seen:
            detail = "The configuration, or an earlier choice of this run, has it already; it is used once."
            dropped.append(candidate.drop(source, DropReason.DUPLICATE, detail))
            continue
        seen.add(piece.slug)
        usable.append(candidate)
    return usable, dropped
