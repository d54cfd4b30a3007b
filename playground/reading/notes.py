"""What to tell the reader of a run about its end: what happened, what is kept, what to do next."""

from __future__ import annotations

from dataclasses import dataclass

from llmcore.errors import UNSENT, advice_of
from llmcore.runs.outcome import EndReason
from llmcore.usage import Usage
from playground.models import GO_ON, Run
from playground.numbers import duration, money, plural, tokens
from playground.reading.ends import END_LOOKS
from playground.reading.lines import StepList
from playground.reading.plan import Plan


@dataclass(frozen=True, kw_only=True, slots=True)
class EndNote:
    """The note above the summary of a run that didn't simply complete.

    `message` is what the provider said, `figures` what the run used or, dry, would use. `more_of` is what a re-run
    needs more of, as the field of its form is called.
    """

    css: str
    icon: str
    what: str
    message: str
    kept: str
    figures: str
    next: str
    more_of: str = ""

    @property
    def more(self) -> str:
        return self.more_of.removeprefix("max_")


CSS = {
    EndReason.DRY_RUN: "info",
    EndReason.PROVIDER_FAILED: "err",
    EndReason.INTERNAL_ERROR: "err",
    EndReason.CANCELLED: "idle",
    EndReason.HALTED: "appr",
    EndReason.APPROVAL_EXPIRED: "appr",
}

WHAT = {
    EndReason.DRY_RUN: "Nothing was sent.",
    EndReason.MAX_ROUNDS: "The run reached its limit of rounds.",
    EndReason.TRUNCATED: "The model reached its output cap in the middle of the answer.",
    EndReason.CONTENT_FILTERED: "The provider's content filter stopped the answer.",
    EndReason.EMPTY_ANSWER: "The model answered with nothing: no text and no tool call.",
    EndReason.INVALID_ANSWER: "The answer doesn't fit its schema, and the model has had its chances to correct it.",
    EndReason.BUDGET_EXHAUSTED: "The next call would not have fitted a budget.",
    EndReason.CONTEXT_EXHAUSTED: "The prompt no longer fits the model's context window.",
    EndReason.PROVIDER_FAILED: "The provider failed.",
    EndReason.CANCELLED: "Cancelled.",
    EndReason.HALTED: "A hook of this site halted the run.",
    EndReason.APPROVAL_EXPIRED: "Nobody decided about the proposed action in time.",
    EndReason.INTERRUPTED: "The worker was lost during the run.",
    EndReason.INTERNAL_ERROR: "The runtime failed. This is a fault of the site, not of the model.",
}

NEXT = {
    EndReason.DRY_RUN: "The request below is byte for byte what round 1 would send.",
    EndReason.MAX_ROUNDS: "The model had to answer without tools in the last round. Allow more rounds, or look for "
    "calls that repeat.",
    EndReason.TRUNCATED: "Allow more output tokens, or ask for a shorter answer.",
    EndReason.CONTENT_FILTERED: "Reword the prompt, or use another model.",
    EndReason.EMPTY_ANSWER: "Run it again, or change the prompt.",
    EndReason.INVALID_ANSWER: "The step “Answer checked” names each place. Allow one more repair, simplify the schema, "
    "or use another model.",
    EndReason.BUDGET_EXHAUSTED: "Raise the budget, or wait until it begins anew; then continue the run.",
    EndReason.CONTEXT_EXHAUSTED: "Shorten the prompt, limit what tools return, or choose a model with a larger window.",
    EndReason.CANCELLED: "Retry makes the last round again, as a new run; Re-run starts from the beginning.",
    EndReason.HALTED: "The detail names the hook's reason.",
    EndReason.APPROVAL_EXPIRED: "Re-run asks for the approval again.",
    EndReason.INTERRUPTED: "Continue goes on from the last recorded step.",
    EndReason.INTERNAL_ERROR: "The traceback is in the step list and in the log of the worker.",
}


def end_note(run: Run, plan: Plan, steps: StepList) -> EndNote | None:
    """`None` while the run goes on, and where it simply completed."""
    if not run.reason or run.reason == EndReason.COMPLETED:
        return None
    reason = EndReason(run.reason)
    return EndNote(
        css=CSS.get(reason, "warn"),
        icon=END_LOOKS[reason].icon,
        what=_what(run, reason, plan),
        message=_message(run, reason),
        kept=_kept(run, reason),
        figures=_foreseen(run, plan, steps) if reason == EndReason.DRY_RUN else _used(run, steps),
        next=" ".join(filter(None, (_unsafe(steps) if reason in UNFINISHED else "", _next(run, reason)))),
        more_of=MORE_OF.get(reason, ""),
    )


# A run that is filled in from this one begins with the form open at this field.
MORE_OF = {EndReason.TRUNCATED: "max_tokens", EndReason.MAX_ROUNDS: "max_rounds"}
UNFINISHED = (EndReason.INTERRUPTED, EndReason.CANCELLED, EndReason.INTERNAL_ERROR)


def _what(run: Run, reason: EndReason, plan: Plan) -> str:
    if reason == EndReason.PROVIDER_FAILED and run.error:
        kind = str(run.error.get("kind", "")).replace("_", " ")
        status = f"HTTP {run.error['status']}, " if run.error.get("status") else ""
        return f"{plan.provider_name or 'The provider'} failed in round {max(run.rounds, 1)}: {status}{kind}."
    if reason == EndReason.CANCELLED and run.wall_ms is not None:
        where = f", in round {run.rounds}" if run.rounds else ""
        return f"{(run.detail or WHAT[reason]).removesuffix('.')} after {duration(run.wall_ms)}{where}."
    return run.detail or WHAT[reason]


def _message(run: Run, reason: EndReason) -> str:
    """The provider's own words."""
    return str(run.error.get("message", "")) if reason == EndReason.PROVIDER_FAILED and run.error else ""


def _kept(run: Run, reason: EndReason) -> str:
    if reason == EndReason.DRY_RUN:
        return ""
    if not run.rounds:
        return "No round had begun."
    parts = [plural(run.rounds, "round") if run.rounds > 1 else "Round 1"]
    if run.tool_calls:
        parts.append(plural(run.tool_calls, "tool call"))
    if run.answer:
        parts.append("the answer" if reason == EndReason.MAX_ROUNDS else "the answer as far as it came")
    listed = parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
    return f"{listed} {'is' if len(parts) == 1 and run.rounds == 1 else 'are'} kept."


def _used(run: Run, steps: StepList) -> str:
    """Tokens and cost as far as they were reported, and how many calls reported none."""
    counts = ((run.input_tokens, "prompt"), (run.output_tokens, "completion"))
    known = [f"{tokens(count)} {name}" for count, name in counts if count is not None]
    calls = [line for line in steps.lines if line.css == "call" and line.sent]
    silent = sum(line.estimated or line.tokens is None for line in calls)
    if not known:
        return "No usage was reported, so its cost is unknown." if calls else ""
    cost = f", {money(run.cost)}" if run.cost is not None else ""
    missing = f", without {silent} of {plural(len(calls), 'call')} that reported none" if silent else ""
    return f"Used: {' and '.join(known)} tokens{cost}{missing}."


def _foreseen(run: Run, plan: Plan, steps: StepList) -> str:
    """What a dry run assembled, what it warns of, and what its first round would cost."""
    size = next((line.tokens for line in steps.lines if line.css == "call"), None)
    if size is None:
        return ""
    took = f" in {duration(run.wall_ms - (run.queue_ms or 0.0))}" if run.wall_ms is not None else ""
    warnings = sum(finding.get("severity") == "warning" for finding in run.findings or ())
    warned = f" {plural(warnings, 'warning')}." if warnings else ""
    cost = plan.prices.cost(Usage(input_tokens=size, output_tokens=0))
    priced = f" The prompt of round 1 would cost about {money(cost)}." if cost is not None else ""
    return f"About {plural(size, 'token')} were assembled{took}.{warned}{priced}"


def _next(run: Run, reason: EndReason) -> str:
    if reason == EndReason.PROVIDER_FAILED:
        return advice_of(run.error or {}) or "The failed step shows what came back."
    if reason == EndReason.BUDGET_EXHAUSTED and run.continuable and (run.error or {}).get("kind") in UNSENT:
        return advice_of(run.error or {})
    if reason in GO_ON and not run.continuable:
        return "It can't go on any more: what it needs for that is no longer stored as it was."
    if reason == EndReason.CANCELLED and not run.rounds:
        return "Re-run starts it from the beginning."
    return NEXT[reason]


def _unsafe(steps: StepList) -> str:
    """Names the tools that had started and left no result: what they did is unknown."""
    names = dict.fromkeys(line.name for line in steps.lines if line.is_tool and line.duration_ms is None)
    if not names:
        return ""
    return f"{', '.join(names)} had started and may have had an effect. Check it before you continue."
