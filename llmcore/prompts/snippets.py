"""Which snippets a run uses."""

from __future__ import annotations

from collections.abc import Sequence

from llmcore.configuration import Configuration, Snippet
from llmcore.prompts.candidates import Candidate, candidates
from llmcore.prompts.provenance import Dropped, DropReason, Source


def choose_snippets(
    configuration: Configuration, forced: Sequence[Snippet]
) -> tuple[list[Candidate[Snippet]], list[Dropped]]:
    """The snippets in their order, listed ones before those that come by their tags, and those left out."""
    listed = {snippet.slug for snippet in configuration.snippets}

    def reason(snippet: Snippet) -> str:
        tags = [tag for tag in configuration.snippet_tags if tag in snippet.tags]
        return "" if snippet.slug in listed else f"by the tag {', '.join(tags)}"

    configured = (*configuration.snippets, *configuration.tagged_snippets)
    usable, dropped = candidates(Source.SNIPPET, configured, forced, reason=reason)
    chosen: list[Candidate[Snippet]] = []
    for candidate in usable:
        if candidate.piece.body.strip():
            chosen.append(candidate)
        else:
            dropped.append(candidate.drop(Source.SNIPPET, DropReason.EMPTY, "It has no text."))
    return chosen, dropped
