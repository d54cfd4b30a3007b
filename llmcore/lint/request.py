"""Notices about parameters, the model's window and its fallbacks."""

from __future__ import annotations

from collections.abc import Iterator

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
    use, label = draft.use, draft.call.model.label or draft.call.model.name
    if use.window is None or use.free is None or use.free >= 0:
        return
    left = use.window - use.used
    if left < 0:
        yield Notice(
            id="prompt_over_window",
            severity=Severity.ERROR,
            title="The prompt doesn't fit the model's window",
            detail=f"It is about {tokens(-left)} over the {use.window:,} of {label}. Shorten it, or choose a model "
            "with a larger window.",
            impact=f"{percent(use.used, use.window)} of the window",
            fix=field("configuration", "Configuration"),
        )
    elif draft.call.parameters.max_tokens is not None:
        yield Notice(
            id="answer_over_window",
            severity=Severity.WARNING,
            title="The answer may not fit the model's window",
            detail=f"Max tokens asks for {use.reserve:,}; the window has about {left:,} left, give or take "
            f"{use.margin:,}. Some providers refuse this.",
            fix=field("max_tokens", "Max tokens"),
        )
    else:
        yield Notice(
            id="answer_over_window",
            severity=Severity.WARNING,
            title="The window has little room left for the answer",
            detail=f"About {left:,} tokens, give or take {use.margin:,}; {use.reserve:,} are meant for it. Shorten the "
            "prompt, or choose a model with a larger window.",
            impact=f"{percent(use.used, use.window)} of the window",
            fix=field("configuration", "Configuration"),
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
