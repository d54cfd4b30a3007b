"""Notices about variables in the texts of a prompt."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from llmcore.findings.finding import Severity, code
from llmcore.lint.draft import Draft
from llmcore.lint.notice import Fix, Notice, field
from llmcore.lint.registry import check
from llmcore.prompts.provenance import Segment, Source
from llmcore.prompts.variables import is_name

# Blanks are counted like any other character: to look for them apart takes the square of their number.
_BRACES = re.compile(r"\{\{([^{}\n]{1,100})\}\}")
_LOOKED_THROUGH = 200_000


@check
def unresolved_variables(draft: Draft) -> Iterator[Notice]:
    for use in draft.assembly.variables:
        if not use.resolved:
            yield Notice(
                id="variable_without_value",
                severity=Severity.ERROR,
                title=f"The variable {code(use.name)} has no value",
                detail=f"It stands in: {', '.join(use.places)}. Without a value nothing is started.",
                fix=field(f"variable-{use.name}", "Enter a value"),
            )


@check
def unused_values(draft: Draft) -> Iterator[Notice]:
    for name in draft.assembly.unused_values:
        yield Notice(
            id="value_without_variable",
            severity=Severity.WARNING,
            title=f"The value of {code(name)} is used nowhere",
            detail="No text has this variable: it is not sent.",
            fix=field(f"variable-{name}", "See the value"),
        )


@check
def braces_that_are_no_variables(draft: Draft) -> Iterator[Notice]:
    """What reads like a variable and goes out as it stands: other words between braces, and any in a skill."""
    for segment in draft.segments(Source.CONFIG, Source.OVERRIDE, Source.SNIPPET, Source.USER, Source.SKILL):
        skill = segment.source is Source.SKILL
        found = next((span for span in _spans(draft, segment) if skill or not is_name(span)), None)
        if found is None:
            continue
        why = "Skills are not filled" if skill else "A variable is a name of letters, digits and underscores"
        yield Notice(
            id="not_a_variable",
            severity=Severity.NOTE,
            title=f"{code('{{' + found + '}}')} in {segment.label} is sent as it stands",
            detail=f"{why}.",
            fix=_source_of(segment),
        )


def _spans(draft: Draft, segment: Segment) -> Iterator[str]:
    ends = [span.end for span in segment.values]
    for match in _BRACES.finditer(draft.text(segment)[:_LOOKED_THROUGH]):
        # The values stand in their order, so the first one that ends behind it is the only one that it can be in.
        place = bisect_right(ends, match.start())
        in_value = place < len(ends) and segment.values[place].start <= match.start()
        if not in_value and (words := match[1].strip(" \t")):
            yield words


def _source_of(segment: Segment) -> Fix | None:
    match segment.source:
        case Source.USER:
            return field("prompt", "User prompt")
        case Source.OVERRIDE:
            return field("system_override", "Override")
        case Source.CONFIG if segment.object_id:
            return Fix(kind="configuration", label="Edit configuration", id=segment.object_id)
        case Source.SKILL if segment.object_id:
            return Fix(kind="skill", label="Edit skill", id=segment.object_id)
        case Source.SNIPPET if segment.object_id:
            return Fix(kind="snippet", label="Edit snippet", id=segment.object_id)
    return None
