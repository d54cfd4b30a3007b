"""One action that another engine proposes: looking at it, and deciding."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from llmcore.actions.proposals import DecisionKind
from playground.access import visible_engine_actions
from playground.forms.approvals import DecisionForm
from playground.models import EngineAction
from playground.reading.boxes import pretty, shown
from playground.reading.engine_actions import read_engine_action
from playground.services.decide_action import DecisionConflict, MayNotDecide
from playground.services.decide_engine_action import decide_engine_action
from playground.views import StaffRequest, admin_page
from playground.views.run import SEE


@require_safe
@admin_page(*SEE)
def engine_action(request: StaffRequest, action_id: int) -> HttpResponse:
    return card_page(request, visible_action(request, action_id))


@require_safe
@admin_page(*SEE)
def engine_action_whole(request: StaffRequest, action_id: int) -> HttpResponse:
    """All of it, however long, as text."""
    action = visible_action(request, action_id)
    if action.content is None:
        raise Http404
    response = HttpResponse(shown(pretty(action.content)), content_type="text/plain; charset=utf-8")
    response["X-Content-Type-Options"] = "nosniff"
    return response


@require_POST
@admin_page(*SEE)
def engine_action_decide(request: StaffRequest, action_id: int) -> HttpResponse:
    """409, and nothing is changed, where there is nothing to decide (any more) of what the decider was shown."""
    action = visible_action(request, action_id)
    form = DecisionForm(request.POST)
    if not form.is_valid():
        return HttpResponse("This is no decision.", status=400, content_type="text/plain")
    data = form.cleaned_data
    try:
        decide_engine_action(
            action_id=action.pk,
            digest=data["digest"],
            kind=DecisionKind(data["decision"]),
            by=request.user,
            reason=data["reason"],
            now=timezone.now(),
        )
    except DecisionConflict as conflict:
        return card_page(request, visible_action(request, action_id), conflict=str(conflict))
    except MayNotDecide as refusal:
        raise PermissionDenied(str(refusal)) from refusal
    return redirect("playground:engine_action", action_id=action.pk)


def visible_action(request: StaffRequest, action_id: int) -> EngineAction:
    related = ("user", "configuration", "decided_by")
    action = visible_engine_actions(request.user).select_related(*related).filter(pk=action_id).first()
    if action is None:
        raise Http404
    return action


def card_page(request: StaffRequest, action: EngineAction, *, conflict: str = "") -> HttpResponse:
    card = read_engine_action(action, user=request.user, now=timezone.now())
    context = {"title": f"{action.tool}, session {action.session}", "card": card, "conflict": conflict}
    status = 409 if conflict else 200
    return TemplateResponse(request, "playground/actions/engine_action.html", context, status=status)
