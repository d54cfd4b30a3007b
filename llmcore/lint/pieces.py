"""Notices about what the prompt is made of: hidden, left out, there twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from llmcore.findings.finding import Severity, code, tokens
from llmcore.lint.draft import Draft
from llmcore.lint.notice import Fix, Notice, configuration, field
from llmcore.lint.registry import check
from llmcore.prompts.provenance import Dropped, DropReason, Segment, Source

# Left out for good reason or because a person wanted it so.
_EXPECTED = {DropReason.DUPLICATE, DropReason.OVERRIDDEN, DropReason.OVER_BUDGET}
_KINDS = {Source.SKILL: "skill", Source.SNIPPET: "snippet", Source.CONFIG: "configuration"}


@check
def nothing_asked(draft: Draft) -> Iterator[Notice]:
    if not any(
        message.text.strip() or message.tool_calls for message in draft.assembly.messages if message.role != "system"
    ):
        yield Notice(
            id="no_user_prompt",
            severity=Severity.NOTE,
            title="There is no user prompt yet",
            detail="Everything else is as it will be.",
            fix=field("prompt", "User prompt"),
        )


@check
def hidden_system_prompt(draft: Draft) -> Iterator[Notice]:
    if draft.override is None:
        return
    hidden = next((item for item in draft.assembly.dropped if item.reason is DropReason.OVERRIDDEN), None)
    empty = not draft.override.strip()
    if hidden is None and not empty:
        return
    if empty:
        effect = "replaces the system prompt with nothing" if draft.replaces else "adds nothing"
        title, detail = f"The override is empty: it {effect}", ""
    else:
        title, detail = "The override hides the system prompt", "To add to it instead, choose “Append”."
    yield Notice(
        id="override_hides_system_prompt",
        severity=Severity.NOTE,
        title=title,
        detail=detail,
        impact=f"−{tokens(hidden.tokens)}" if hidden else "",
        fix=field("system_override", "Override"),
    )


@check
def left_out(draft: Draft) -> Iterator[Notice]:
    for item in draft.assembly.dropped:
        if item.reason not in _EXPECTED:
            yield Notice(
                id=f"{item.source.value}_left_out",
                severity=Severity.WARNING,
                title=f"{item.source.value.capitalize()} {item.label} is left out",
                detail=item.detail,
                impact=f"−{tokens(item.tokens)}" if item.tokens else "",
                fix=fix_of(item),
            )


@check
def over_budget(draft: Draft) -> Iterator[Notice]:
    items = [item for item in draft.assembly.dropped if item.reason is DropReason.OVER_BUDGET]
    if not items:
        return
    first, *others = items
    after = f" After it: {', '.join(item.label for item in others)}." if others else ""
    yield Notice(
        id="skill_over_budget",
        severity=Severity.WARNING,
        title=f"Skill {first.label} is left out" if not others else f"{len(items)} skills are left out",
        detail=first.detail + after,
        impact=f"−{tokens(sum(item.tokens for item in items))}",
        fix=configuration(draft.configuration.id, "Change budget"),
    )


@check
def chosen_twice(draft: Draft) -> Iterator[Notice]:
    """The same skill or snippet from two sides, which is used once."""
    for item in draft.assembly.dropped:
        if item.reason is DropReason.DUPLICATE:
            yield Notice(
                id="chosen_twice",
                severity=Severity.NOTE,
                title=f"{item.source.value.capitalize()} {item.label} is chosen twice",
                detail=item.detail,
                fix=field(f"{item.source.value}_{item.source_id}", f"Forced {item.source.value}s"),
            )


@check
def same_text(draft: Draft) -> Iterator[Notice]:
    by_text: dict[tuple[Source, str], list[Segment]] = defaultdict(list)
    for segment in draft.segments(Source.SNIPPET, Source.SKILL):
        text = draft.text(segment)
        # A skill's section begins with a line that has its name.
        body = text.partition("\n")[2] if segment.source is Source.SKILL else text
        by_text[segment.source, " ".join(body.split())].append(segment)
    for (source, _text), segments in by_text.items():
        if len(segments) > 1:
            names = " and ".join(code(segment.source_id) for segment in segments)
            yield Notice(
                id="same_text",
                severity=Severity.WARNING,
                title=f"The {source.value}s {names} say the same",
                detail="The model reads it more than once. Keep one of them.",
                impact=f"+{tokens(sum(segment.tokens for segment in segments[1:]))}",
                fix=Fix(kind="skill", label="Edit skill", id=segments[-1].object_id)
                if source is Source.SKILL
                else Fix(kind="snippet", label="Edit snippet", id=segments[-1].object_id),
            )


def fix_of(item: Dropped) -> Fix | None:
    kind = _KINDS.get(item.source)
    if kind is None or item.object_id is None:
        return None
    return Fix(kind=kind, label=f"Edit {kind}", id=item.object_id)  # type: ignore[arg-type]
