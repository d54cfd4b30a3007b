"""Why a provider read as much from its cache as it did, in words."""

from __future__ import annotations

from llmcore.prompts.cache import Change, Reason, Reuse
from playground.numbers import duration, tokens

CHANGED = {
    Change.PROVIDER: "The provider is another one, and each has a cache of its own.",
    Change.MODEL: "The model is another one, and each has a cache of its own.",
    Change.TOOLS: "The definitions of the tools changed; they come first, so all that follows was sent anew.",
    Change.COMPACTION: "Compaction: old turns gave way to a summary, so all from there on was sent anew.",
    Change.MESSAGE: "What comes after the first difference was sent anew.",
}


def explained(reuse: Reuse) -> str:
    """Of a request and the one before it in its run, in a sentence or two."""
    match reuse.reason:
        case Reason.FIRST:
            return "Nothing was answered before it in this run. What is read here was cached by another run."
        case Reason.NO_ANSWER:
            return "There is no answer that could report anything."
        case Reason.NOT_REPORTED:
            return "The provider doesn't report what it read from a cache, or has none."
        case Reason.READ:
            return "The provider read what it could."
        case Reason.CHANGED:
            less = f" Not all of what is the same was read either. {_why_less(reuse)}" if reuse.shortfall else ""
            return CHANGED[reuse.change or Change.MESSAGE] + less
    return _why_less(reuse)


def explained_between(reuse: Reuse, *, between: int = 0) -> str:
    """Of two requests A and B, as if B had followed A. `between` requests of the same run came after A and before B."""
    match reuse.reason:
        case Reason.FIRST:
            return "A got no answer, so nothing of it was cached."
        case Reason.NO_ANSWER:
            return "B has no answer that could report anything."
        case Reason.READ if _more(reuse):
            return "The provider read more than the two have in common: another request had more of it."
    said = explained(reuse) + (" What was read is of another request." if _more(reuse) else "")
    if between and Reason.EXPIRED in (reuse.reason, reuse.shortfall):
        return f"{said} The requests between the two may have kept it for longer."
    return said


def _more(reuse: Reuse) -> bool:
    """Whether more was read than can be of the other request."""
    return (reuse.reported or 0) > reuse.planned + reuse.slack


def _why_less(reuse: Reuse) -> str:
    rules = reuse.rules
    match reuse.shortfall or reuse.reason:
        case Reason.NOT_YET:
            return "A was not answered yet when B was sent, so nothing of it was cached."
        case Reason.BELOW_MINIMUM if rules.minimum_tokens is None:
            return (
                f"Too short: most providers cache prompts from {tokens(reuse.minimum)} tokens on; what this one does "
                "isn't known."
            )
        case Reason.BELOW_MINIMUM:
            return f"Too short: this provider caches prompts from {tokens(reuse.minimum)} tokens on."
        case Reason.EXPIRED:
            kept = duration((rules.lifetime_s or 0) * 1000)
            return f"Expired: {duration(reuse.idle_s * 1000)} had passed, and a prefix is kept for about {kept}."
    return (
        f"{tokens(reuse.missed)} tokens were read anew without a reason that shows here. Caches promise nothing: "
        "requests may have reached different servers."
    )
