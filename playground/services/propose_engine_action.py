"""Writes down an action that another engine proposes, so that a person can decide about it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction

from llmcore import store
from llmcore.actions.policy import Judged
from llmcore.actions.proposals import DecisionKind, key_of
from llmcore.conf import settings
from llmcore.messages import JSON, ToolCall, digest_of
from llmcore.models import Configuration
from llmcore.site_turns import user_named
from llmcore.tools.base import Action
from llmcore.turns.request import ActionRequest
from playground.models import EngineAction
from playground.privacy import site_level


def propose_engine_action(
    *, request: ActionRequest, session: str, action: Action, judged: Judged, now: datetime
) -> EngineAction:
    """The action as it waits. An engine that asks again gets the one that it asked for before: while it waits, and if
    it named its call, with what was decided."""
    key, digest = _named(request, session, action)
    before = EngineAction.objects.filter(session=session, digest=digest)
    if found := (before if request.call else before.filter(decision="")).first():
        return found
    configuration = Configuration.objects.get(slug=request.configuration)
    row = EngineAction(
        session=session,
        call_id=request.call,
        configuration=configuration,
        configuration_name=configuration.name,
        user=user_named(request.user),
        other_decider=configuration.requires_other_decider,
        tool=request.name,
        rule=judged.rule.name[:200] if judged.rule else "",
        key=key,
        digest=digest,
        content=content_of(action, request.arguments, judged.why),
        privacy_level=site_level(),
        proposed_at=now,
        expires_at=now + timedelta(seconds=settings.LLM_APPROVAL_EXPIRY_S),
    )
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        # The same was asked twice at once.
        return before.get(decision="")
    return row


def denied_before(*, request: ActionRequest, session: str, action: Action) -> EngineAction | None:
    """The same call, by the name that the engine gave it, where a person has denied it."""
    if not request.call:
        return None
    _key, digest = _named(request, session, action)
    return EngineAction.objects.filter(session=session, digest=digest, decision=DecisionKind.DENY).first()


def _named(request: ActionRequest, session: str, action: Action) -> tuple[str, str]:
    """What a decision about the call holds for, and what it names."""
    call = ToolCall(id=request.call, name=request.name, arguments=dict(request.arguments))
    key = key_of(call, action)
    return key, digest_of({"session": session, "call": request.call, "key": key})


def content_of(action: Action, arguments: Mapping[str, JSON], why: str) -> JSON:
    """As the step of a run keeps it, so that it is described the same way."""
    content = {"action": action.to_json(), "arguments": dict(arguments), "why": why}
    return store.site_redactor().stored(content)
