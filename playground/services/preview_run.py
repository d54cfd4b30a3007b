"""What the first request of a run would be, from the same function that makes the run ready."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from django.contrib.auth.models import User

from llmcore import store
from llmcore.context.estimator import Estimator
from llmcore.context.forecast import forecast
from llmcore.errors import SecretUnavailable
from llmcore.findings import Severity
from llmcore.lint import Draft, Notice, look_over
from llmcore.prompts.assembly import Source
from llmcore.providers.registry import adapter_of
from llmcore.tools.replacement import Mode
from llmcore.usage import Usage
from playground.numbers import plural
from playground.reading.preview import (
    NEEDS_APPROVAL,
    Estimate,
    Preview,
    PreviewMessage,
    PreviewSegment,
    Share,
    WindowUse,
)
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


def preview_run(*, request: RunRequest, user: User) -> Preview:
    """ConfigurationError says what to change where the run couldn't start. Makes no call and needs no key."""
    prepared = prepare_run(request=replace(request, dry_run=True), user=user, draft=True)
    estimator = Estimator.of(prepared.call.model)
    messages = tuple(_message(prepared, index, estimator) for index in range(len(prepared.assembly.messages)))
    tools_tokens = estimator.tools(prepared.call.tools)
    window = _window(prepared, messages, tools_tokens)
    return Preview(
        prepared=prepared,
        messages=messages,
        tools_tokens=tools_tokens,
        window=window,
        estimate=_estimate(prepared, window),
        notices=(
            *_key_notices(request),
            *look_over(_draft(prepared, request, window, tools_tokens)),
            *_tool_notices(prepared, request),
        ),
    )


def _message(prepared: PreparedRun, index: int, estimator: Estimator) -> PreviewMessage:
    message = prepared.assembly.messages[index]
    return PreviewMessage(
        number=index + 1,
        message=message,
        tokens=estimator.message(message),
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


def _estimate(prepared: PreparedRun, window: WindowUse) -> Estimate:
    prices, state = prepared.call.model.prices, prepared.state

    def cost(*, read: int, cached: int = 0, written: int = 0) -> Decimal | None:
        return prices.cost(Usage(input_tokens=read, cache_read_input_tokens=cached, output_tokens=written))

    return Estimate(
        prompt=cost(read=window.total),
        cached=None if prices.cache_read is None else cost(read=window.total, cached=window.total),
        completion=None if window.reserve is None else cost(read=0, written=window.reserve),
        run=forecast(
            prices,
            prompt_tokens=window.total,
            answer_tokens=window.reserve,
            window=window.size,
            # Who can call no tool answers at once; at the limit of rounds comes one last call.
            calls=max(state.limits.max_rounds - state.rounds_used, 0) + 1 if prepared.call.tools else 1,
        ),
    )


def _draft(prepared: PreparedRun, request: RunRequest, window: WindowUse, tools_tokens: int) -> Draft:
    return Draft(
        configuration=prepared.configuration,
        assembly=prepared.assembly,
        call=prepared.call,
        gate=prepared.gate,
        message_tokens=window.total - tools_tokens,
        tools_tokens=tools_tokens,
        reserve=window.reserve,
        refused=adapter_of(prepared.call.provider, prepared.call.model).left_out(prepared.call),
        override=request.system_override,
        replaces=request.override_mode == "replace",
        chose_tools=request.tools is not None,
    )


def _key_notices(request: RunRequest) -> list[Notice]:
    """The prompt can be seen without the key, the run can't be made."""
    try:
        store.load_configuration(request.configuration)
    except SecretUnavailable as error:
        title = "A run would fail, a dry run wouldn't"
        return [Notice(id="key_unavailable", severity=Severity.ERROR, title=title, detail=str(error))]
    return []


def _tool_notices(prepared: PreparedRun, request: RunRequest) -> Iterator[Notice]:
    """What calls of the offered tools will meet."""
    asked = {item.tool for item in request.replacements if item.mode is Mode.ASK}
    if replaced := [tool.name for tool in prepared.tools.values() if tool.replaced]:
        yield Notice(
            id="tools_replaced",
            severity=Severity.NOTE,
            title=f"{plural(len(replaced), 'tool')} won't run: {', '.join(replaced)}",
            detail="Calls get recorded or typed-in results.",
        )
    if asking := [tool.name for tool in prepared.tools.values() if tool.requires_approval or tool.name in asked]:
        yield Notice(
            id=NEEDS_APPROVAL,
            severity=Severity.NOTE,
            title=f"{plural(len(asking), 'tool needs', 'tools need')} approval: {', '.join(asking)}",
            detail="The run pauses until somebody decides, unless a rule does.",
        )
