"""What the first request of a run would be, from the same function that makes the run ready."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from django.contrib.auth.models import User
from django.utils import timezone

from llmcore import store
from llmcore.context.account import Account
from llmcore.context.budget import WindowUse, longest_answer
from llmcore.context.estimator import Estimator
from llmcore.context.forecast import forecast
from llmcore.context.tokens import Share
from llmcore.errors import SecretUnavailable
from llmcore.findings import Severity
from llmcore.lint import Draft, Notice, look_over
from llmcore.providers.registry import adapter_of
from llmcore.tools.replacement import Mode
from llmcore.usage import Usage
from playground.numbers import plural
from playground.reading.preview import NEEDS_APPROVAL, Estimate, Preview, PreviewMessage, PreviewSegment
from playground.reading.window_bar import WindowBar
from playground.services.budget_notices import budget_notices
from playground.services.prepare_run import PreparedRun, prepare_run
from playground.services.start_run import RunRequest


def preview_run(*, request: RunRequest, user: User) -> Preview:
    """ConfigurationError says what to change where the run couldn't start. Makes no call and needs no key."""
    prepared = prepare_run(request=replace(request, dry_run=True), user=user, draft=True)
    estimator = Estimator.of(prepared.call.model)
    messages = tuple(_message(prepared, index, estimator) for index in range(len(prepared.assembly.messages)))
    use = _account(prepared).use(prepared.call.parameters)
    tools_tokens = use.shares.get(Share.TOOLDEF, 0)
    estimate = _estimate(prepared, use)
    return Preview(
        prepared=prepared,
        messages=messages,
        tools_tokens=tools_tokens,
        window=WindowBar(use),
        estimate=estimate,
        notices=(
            *_key_notices(request),
            *budget_notices(prepared=prepared, use=use, foreseen=estimate.run, user=user, now=timezone.now()),
            *look_over(_draft(prepared, request, use)),
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


def _account(prepared: PreparedRun) -> Account:
    """What the first request takes, as the loop will reckon it."""
    account = Account(
        prepared.call.model,
        margin_percent=prepared.state.limits.margin_percent,
        segments=prepared.assembly.segments,
    )
    account.take(prepared.assembly.messages, prepared.call.tools)
    return account


def _estimate(prepared: PreparedRun, use: WindowUse) -> Estimate:
    prices, state = prepared.call.model.prices, prepared.state
    answer = longest_answer(use, model=prepared.call.model, parameters=prepared.call.parameters)

    def cost(*, read: int, cached: int = 0, written: int = 0) -> Decimal | None:
        return prices.cost(Usage(input_tokens=read, cache_read_input_tokens=cached, output_tokens=written))

    return Estimate(
        prompt=cost(read=use.used),
        cached=None if prices.cache_read is None else cost(read=use.used, cached=use.used),
        completion=None if answer is None else cost(read=0, written=answer),
        run=forecast(
            prices,
            prompt_tokens=use.used,
            answer_tokens=answer,
            window=use.window,
            # Who can call no tool answers at once; at the limit of rounds comes one last call.
            calls=max(state.limits.max_rounds - state.rounds_used, 0) + 1 if prepared.call.tools else 1,
        ),
    )


def _draft(prepared: PreparedRun, request: RunRequest, use: WindowUse) -> Draft:
    return Draft(
        configuration=prepared.configuration,
        assembly=prepared.assembly,
        call=prepared.call,
        gate=prepared.gate,
        use=use,
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
