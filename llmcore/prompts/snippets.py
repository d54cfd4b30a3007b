"""Which snippets a run uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llmcore.configuration import Snippet
from llmcore.prompts.candidates import Candidate, candidates
from llmcore.prompts.provenance import Dropped, DropReason, Source


def choose_snippets(
    configured: Iterable[Snippet], forced: Sequence[Snippet]
) -> tuple[list[Candidate[Snippet]], list[Dropped]]:
    """The snippets in their order, and those left out."""
    usable, dropped = candidates(Source.SNIPPET, configured, forced)
    chosen: list[Candidate[Snippet]] = []
    for candidate in usable:
        if candidate.piece.body.strip():
            chosen.append(candidate)
        else:
            dropped.append(candidate.drop(Source.SNIPPET, DropReason.EMPTY, "It has no text."))
    return chosen, dropped
