"""Findings about what the model answered: cut off, filtered, empty, or in the wrong place."""

from __future__ import annotations

from collections.abc import Iterator

from llmcore.errors import ErrorKind
from llmcore.findings.finding import Finding, Severity, percent, quoted, rounds_named, tokens
from llmcore.findings.registry import finder
from llmcore.findings.view import ModelRound, RunView
from llmcore.messages import FinishReason

# Within this part of the window the window itself was what ended the answer.
_FULL_WINDOW = 0.98
_MOST_OF_OUTPUT = 0.5


@finder
def truncated_by_length(view: RunView) -> Iterator[Finding]:
    for call in view.rounds:
        if call.got.get("finish_reason") != FinishReason.LENGTH:
            continue
        written = call.usage.get("output_tokens")
        yield call.finding(
            "truncated_by_length",
            Severity.ERROR,
            f"The answer of round {call.number} was cut off",
            _what_was_full(call, view.context_window),
            tokens(written) if written is not None else "",
        )


def _what_was_full(call: ModelRound, window: int | None) -> str:
    limit = (call.asked.get("parameters") or {}).get("max_tokens")
    read, written = call.usage.get("input_tokens"), call.usage.get("output_tokens")
    if window and read is not None and written is not None and read + written >= window * _FULL_WINDOW:
        return f"Prompt and answer filled the model's window of {tokens(window)}. Shorten the prompt."
    if limit is not None:
        return f"It reached the limit of {tokens(limit)} (`max_tokens`). Raise the limit, or ask for less."
    return "It reached the most tokens that the model or its server allows for one answer. Ask for less at a time."


@finder
def thinking_ate_the_output(view: RunView) -> Iterator[Finding]:
    for call in view.rounds:
        thought, written = call.usage.get("reasoning_output_tokens"), call.usage.get("output_tokens")
        if call.got.get("finish_reason") != FinishReason.LENGTH or not thought or not written:
            continue
        if thought >= written * _MOST_OF_OUTPUT:
            yield call.finding(
                "thinking_ate_the_output",
                Severity.WARNING,
                f"Thinking used up the answer's tokens in round {call.number}",
                f"Of {tokens(written)} that the answer may have, {thought:,} went into thinking. Lower the thinking "
                "effort, or raise `max_tokens`.",
                f"{percent(thought, written)} of the output",
                tab="thinking",
            )


@finder
def empty_answer(view: RunView) -> Iterator[Finding]:
    for call in view.rounds:
        if not _is_empty(call):
            continue
        if thought := call.got.get("thinking_chars"):
            yield call.finding(
                "answer_in_thinking",
                Severity.ERROR,
                f"The answer of round {call.number} is in the thinking field",
                f"The model wrote {thought:,} characters of thinking and no answer. Often the server splits thinking "
                "off wrongly: check the model's setting for thinking in tags, or lower the thinking effort.",
                tab="thinking",
            )
        else:
            yield call.finding(
                "empty_answer",
                Severity.ERROR,
                f"The answer of round {call.number} is empty",
                "The model gave neither text nor a tool call. Run it again, or change the prompt.",
            )


def _is_empty(call: ModelRound) -> bool:
    if call.error:
        return bool(call.error.get("kind") == ErrorKind.EMPTY_RESPONSE)
    ended = call.got.get("finish_reason") == FinishReason.STOP and not call.got.get("cancelled")
    return ended and not call.got.get("text_chars") and not call.got.get("calls") and not call.got.get("refusal")


@finder
def not_as_the_schema_asks(view: RunView) -> Iterator[Finding]:
    for check in view.checks:
        if check.data["valid"]:
            continue
        again, count = bool(check.data["repair"]), check.data["count"]
        found = "one place" if count == 1 else f"{count} places"
        yield Finding(
            id="answer_schema_violation",
            severity=Severity.WARNING if again else Severity.ERROR,
            title=f"The answer of round {check.round} doesn't fit the schema `{check.data['schema']}` in {found}",
            detail="The model was told and answered again, which takes a round."
            if again
            else "No repair was left. Allow more of them, simplify the schema, or use another model.",
            impact="+1 round" if again else "",
            sequence=check.sequence,
            tab="validation",
            where=f"Round {check.round}, answer checked",
        )


@finder
def content_filtered(view: RunView) -> Iterator[Finding]:
    for call in view.rounds:
        refusal, error = call.got.get("refusal"), call.error
        if error.get("kind") == ErrorKind.CONTENT_FILTER:
            title, detail = "The provider's content filter refused the prompt", quoted(str(error.get("message") or ""))
        elif refusal:
            title, detail = "The model refused to answer", quoted(str(refusal))
        elif call.got.get("finish_reason") == FinishReason.CONTENT_FILTER:
            title = "The provider's content filter stopped the answer"
            detail = "What came before it is kept. Reword the prompt, or look at what the tools returned."
        else:
            continue
        yield call.finding("content_filter", Severity.ERROR, f"{title} in round {call.number}", detail)


@finder
def paused(view: RunView) -> Iterator[Finding]:
    calls = [call for call in view.rounds if call.got.get("finish_reason") == FinishReason.PAUSE]
    if calls:
        yield calls[0].finding(
            "paused",
            Severity.NOTE,
            f"The provider paused the answer in {rounds_named([call.number for call in calls])}",
            "It was sent on to be finished, which takes a round each.",
            f"+{len(calls)} round{'s' if len(calls) > 1 else ''}",
        )
