"""Notices about parameters, the model's window and its fallbacks."""

from __future__ import annotations

from collections.abc import Iterator

from llmcore.context.compaction import compaction_of
from llmcore.findings.finding import Severity, percent, tokens
from llmcore.lint.draft import Draft
from llmcore.lint.notice import Notice, configuration, field
from llmcore.lint.registry import check


@check
def refused_parameters(draft: Draft) -> Iterator[Notice]:
    """What is set and does not go out; no server has to refuse it first."""
    for name, reason in sorted(draft.refused.items()):
        yield Notice(
            id="parameter_left_out",
            severity=Severity.WARNING,
            title=f"{name.replace('_', ' ').capitalize()} is left out of the request",
            detail=reason,
            fix=configuration(draft.configuration.id),
        )


@check
def window_overflow(draft: Draft) -> Iterator[Notice]:
    """A request without room for its answer isn't sent; one with little may get a short one."""
    use, asked = draft.use, draft.call.parameters.max_tokens
    label = draft.call.model.label or draft.call.model.name
    if use.window is None or use.free is None or use.free >= 0:
        return
    left, impact = use.window - use.used, f"{percent(use.used, use.window)} of the window"
    if use.has_room(draft.call.parameters):
        yield Notice(
            id="answer_over_window",
            severity=Severity.WARNING,
            title="The window has little room left for the answer",
            detail=f"About {left:,} tokens, give or take {use.margin:,}; {use.reserve:,} are meant for it. Shorten the "
            "prompt, or choose a model with a larger window.",
            impact=impact,
            fix=field("configuration", "Configuration"),
        )
    elif asked is not None and use.used + (use.margin or 0) < use.window:
        yield Notice(
            id="answer_over_window",
            severity=Severity.ERROR,
            title="The answer doesn't fit the model's window",
            detail=f"Max tokens asks for {asked:,}; the window has about {left:,} left, give or take {use.margin:,}. "
            "A run would end before its first call.",
            fix=field("max_tokens", "Max tokens"),
        )
    else:
        over = f"{tokens(-left)} over" if left < 0 else "as long as"
        yield Notice(
            id="prompt_over_window",
            severity=Severity.ERROR,
            title="The prompt doesn't fit the model's window",
            detail=f"It is about {over} the {use.window:,} of {label}, give or take {use.margin:,}. A run would end "
            "before its first call. Shorten it, or choose a model with a larger window.",
            impact=impact,
            fix=field("configuration", "Configuration"),
        )


@check
def begins_with_a_summary(draft: Draft) -> Iterator[Notice]:
    limits = draft.configuration.limits
    found = compaction_of(draft.assembly.messages, keep_turns=limits.keep_turns)
    if found is not None and draft.use.is_crowded(limits.compact_at_percent):
        yield Notice(
            id="begins_with_a_summary",
            severity=Severity.NOTE,
            title="A run would begin with a summary of its oldest turns",
            detail=f"The prompt takes more than {limits.compact_at_percent} % of what it may. This is the request "
            f"before {found.count} messages give way to the summary.",
            fix=configuration(draft.configuration.id),
        )


@check
def fallback_models(draft: Draft) -> Iterator[Notice]:
    """Who answers instead where the model can't, and whether they could."""
    fallbacks, fix = draft.configuration.fallbacks, configuration(draft.configuration.id)
    for route in fallbacks:
        size, label = route.model.context_window, route.model.label or route.model.name
        if size is not None and draft.use.used > size:
            yield Notice(
                id="prompt_over_fallback_window",
                severity=Severity.WARNING,
                title=f"The prompt doesn't fit the window of the fallback model {label}",
                detail=f"It is about {tokens(draft.use.used - size)} over its {size:,}, so that model couldn't answer.",
                fix=fix,
            )
    if fallbacks:
        named = [f"{route.model.label or route.model.name} ({route.provider.name})" for route in fallbacks]
        yield Notice(
            id="fallback_models",
            severity=Severity.NOTE,
            title=f"Fallback: {', then '.join(named)}",
            detail="Asked the same where the model can't be reached, has no room, or fails before its first token.",
            fix=fix,
        )
