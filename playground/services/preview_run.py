"""What the first request of a run would be, from the same function that makes the run ready."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from decimal import Decimal

from django.contrib.auth.models import User

from llmcore import store
from llmcore.context.tokens import estimate_message, estimate_roughly, estimate_tools
from llmcore.errors import SecretUnavailable
from llmcore.prompts.assembly import Dropped, DropReason, Source
from llmcore.providers.registry import adapter_of
from llmcore.tools.gate import LeftOutReason
from llmcore.tools.replacement import Mode
from llmcore.usage import Prices, Usage
from playground.numbers import plural, tokens
from playground.reading.preview import Estimate, Note, Preview, PreviewMessage, PreviewSegment, Share, WindowUse
from playground.services.prepare_run import PreparedRun, prepare_run
from playground.services.start_run import RunRequest

SHARE_LABELS = {
    Source.TOOLDEF: "Tool definitions",
    Source.CONFIG: "Configuration",
    Source.OVERRIDE: "Override",
    Source.SNIPPET: "Snippets",
    Source.SKILL: "Skills",
    Source.USER: "User",
    Source.ASSISTANT: "Model",
    Source.TOOL: "Tool results",
}
# Left out for good reason or because a person wanted it so: listed, but no cause for a warning.
EXPECTED_DROPS = {DropReason.DUPLICATE, DropReason.OVERRIDDEN}


def preview_run(*, request: RunRequest, user: User) -> Preview:
    """ConfigurationError says what to change where the run couldn't start. Makes no call and needs no key."""
    prepared = prepare_run(request=replace(request, dry_run=True), user=user, draft=True)
    messages = tuple(_message(prepared, index) for index in range(len(prepared.assembly.messages)))
    tools_tokens = estimate_tools(prepared.call.tools)
    window = _window(prepared, messages, tools_tokens)
    return Preview(
        prepared=prepared,
        messages=messages,
        tools_tokens=tools_tokens,
        window=window,
        estimate=_estimate(prepared.call.model.prices, window),
        notes=(
            *_key_notes(request),
            *_request_notes(request),
            *_parameter_notes(prepared),
            *_window_notes(prepared, window),
            *_dropped_notes(prepared.assembly.dropped),
            *_tool_notes(prepared, request),
        ),
    )


def _message(prepared: PreparedRun, index: int) -> PreviewMessage:
    message = prepared.assembly.messages[index]
    return PreviewMessage(
        number=index + 1,
        message=message,
        tokens=estimate_message(message, estimate_roughly),
        segments=tuple(
            PreviewSegment(segment=segment, text=message.parts[segment.part].text[segment.start : segment.end])
            for segment in prepared.assembly.segments
            if segment.message == index
        ),
    )


def _window(prepared: PreparedRun, messages: tuple[PreviewMessage, ...], tools_tokens: int) -> WindowUse:
    total = sum(message.tokens for message in messages) + tools_tokens
    by_source: dict[Source, int] = defaultdict(int, {Source.TOOLDEF: tools_tokens})
    for segment in prepared.assembly.segments:
        by_source[segment.source] += segment.tokens
    # What the wire format puts around each message belongs to no source. Long texts are estimated from samples, as in
    # the recorded request: what their pieces come to more than the whole is taken from the largest.
    frame = total - sum(by_source.values())
    if frame < 0:
        by_source[max(by_source, key=lambda source: by_source[source])] += frame
    shares = [Share(css=s.value, label=SHARE_LABELS[s], value=by_source[s]) for s in SHARE_LABELS if by_source[s] > 0]
    if frame > 0:
        shares.append(Share(css="over", label="Framing", value=frame))
    size = prepared.call.model.context_window
    return WindowUse(shares=tuple(shares), total=total, size=size, reserve=_reserve(prepared, size, total))


def _reserve(prepared: PreparedRun, size: int | None, total: int) -> int | None:
    """What was asked for; else what the model can give at most in the window that is left."""
    asked, cap = prepared.call.parameters.max_tokens, prepared.call.model.max_output_tokens
    if asked is not None:
        return asked
    bounds = [bound for bound in (cap, None if size is None else max(size - total, 0)) if bound is not None]
    return min(bounds) if bounds else None


def _estimate(prices: Prices, window: WindowUse) -> Estimate:
    def cost(*, read: int, cached: int = 0, written: int = 0) -> Decimal | None:
        return prices.cost(Usage(input_tokens=read, cache_read_input_tokens=cached, output_tokens=written))

    return Estimate(
        prompt=cost(read=window.total),
        cached=None if prices.cache_read is None else cost(read=window.total, cached=window.total),
        completion=None if window.reserve is None else cost(read=0, written=window.reserve),
    )


def _key_notes(request: RunRequest) -> list[Note]:
    """The prompt can be seen without the key, the run can't be made."""
    try:
        store.load_configuration(request.configuration)
    except SecretUnavailable as error:
        return [Note(kind="err", title="A run would fail, a dry run wouldn't.", detail=str(error))]
    return []


def _request_notes(request: RunRequest) -> list[Note]:
    notes = []
    if not request.prompt.strip():
        notes.append(
            Note(kind="info", title="There is no user prompt yet.", detail="Everything else is as it will be.")
        )
    if request.system_override is not None and not request.system_override.strip():
        effect = "replaces the system prompt with nothing" if request.override_mode == "replace" else "adds nothing"
        notes.append(Note(kind="info", title=f"The override is empty: it {effect}."))
    return notes


def _parameter_notes(prepared: PreparedRun) -> list[Note]:
    """What is set and does not go out; no server has to refuse it first."""
    reasons = adapter_of(prepared.call.provider, prepared.call.model).left_out(prepared.call)
    return [
        Note(kind="warn", title=f"{name.replace('_', ' ').capitalize()} is left out of the request.", detail=reason)
        for name, reason in sorted(reasons.items())
    ]


def _window_notes(prepared: PreparedRun, window: WindowUse) -> list[Note]:
    if window.size is None:
        return []
    if window.total > window.size:
        over = tokens(window.total - window.size)
        detail = f"It is {over} tokens over the {tokens(window.size)} of {prepared.call.model.label}."
        return [Note(kind="err", title="The prompt doesn't fit the model's window.", detail=detail)]
    if window.total + (window.reserve or 0) > window.size:
        left = tokens(window.size - window.total)
        detail = (
            f"Max tokens asks for {tokens(window.reserve)}; the window has {left} left. Some providers refuse this."
        )
        return [Note(kind="warn", title="The answer may not fit the model's window.", detail=detail)]
    return []


def _dropped_notes(dropped: tuple[Dropped, ...]) -> list[Note]:
    over_budget = [item for item in dropped if item.reason is DropReason.OVER_BUDGET]
    notes = [
        Note(kind="warn", title=f"{item.source.value.capitalize()} {item.label} is left out.", detail=item.detail)
        for item in dropped
        if item.reason not in EXPECTED_DROPS and item not in over_budget
    ]
    if over_budget:
        first, *others = over_budget
        detail = first.detail
        if others:
            detail += f" After it: {', '.join(item.label for item in others)}."
        names = f"Skill {first.label} is" if not others else f"{len(over_budget)} skills are"
        notes.append(Note(kind="warn", title=f"{names} left out.", detail=detail, about_budget=True))
    return notes


def _tool_notes(prepared: PreparedRun, request: RunRequest) -> list[Note]:
    """What was asked for, by name or by the configuration, and is not offered."""
    beside_the_point = {LeftOutReason.NOT_REQUESTED}
    if request.tools is None:
        beside_the_point.add(LeftOutReason.NOT_IN_CONFIGURATION)
    by_detail: dict[tuple[LeftOutReason, str], list[str]] = defaultdict(list)
    for left in prepared.gate.left_out:
        if left.reason not in beside_the_point:
            by_detail[left.reason, left.detail].append(left.name)
    notes = [
        Note(
            kind="warn",
            title=f"{plural(len(names), 'tool')} not offered: {', '.join(names)}.",
            detail=f"{detail[:1].upper()}{detail[1:]}.",
        )
        for (_reason, detail), names in by_detail.items()
    ]
    asked = {item.tool for item in request.replacements if item.mode is Mode.ASK}
    if replaced := [tool.name for tool in prepared.tools.values() if tool.replaced]:
        title = f"{plural(len(replaced), 'tool')} won't run: {', '.join(replaced)}."
        notes.append(Note(kind="info", title=title, detail="Calls get recorded or typed-in results."))
    if asking := [tool.name for tool in prepared.tools.values() if tool.requires_approval or tool.name in asked]:
        need = "1 tool needs" if len(asking) == 1 else f"{len(asking)} tools need"
        detail = "The run pauses until somebody decides, unless a rule does."
        notes.append(Note(kind="appr", title=f"{need} approval: {', '.join(asking)}.", detail=detail))
    return notes + [Note(kind="warn", title=warning) for warning in prepared.gate.warnings]
