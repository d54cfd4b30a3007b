"""Proposed actions: deciding about one on the page of its run, and the list of all that wait."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from llmcore.actions.proposals import DecisionKind
from playground.forms.approvals import DecisionForm
from playground.models import Run
from playground.reading.approvals import read_waiting
from playground.reading.inbox import read_inbox
from playground.reading.page import read_page
from playground.services.decide_action import DecisionConflict, MayNotDecide, decide_action
from playground.views import StaffRequest, admin_page
from playground.views.run import SEE


@require_POST
@admin_page(*SEE)
def action_decide(request: StaffRequest, run: Run, action_id: int) -> HttpResponse:
    """409, and nothing is changed, where there is nothing to decide (any more) of what the decider was shown."""
    form = DecisionForm(request.POST)
    if not form.is_valid():
        return HttpResponse("This is no decision.", status=400, content_type="text/plain")
    data = form.cleaned_data
    conflict = ""
    try:
        decide_action(
            run=run,
            action_id=action_id,
            digest=data["digest"],
            kind=DecisionKind(data["decision"]),
            by=request.user,
            reason=data["reason"],
            again=data["again"],
        )
    except DecisionConflict as found:
        conflict = str(found)
    except MayNotDecide as refusal:
        raise PermissionDenied(str(refusal)) from refusal
    run.refresh_from_db()
    status = 409 if conflict else 200
    now = timezone.now()
    if request.htmx:
        context = {"run": run, "waiting": read_waiting(run, user=request.user, now=now), "conflict": conflict}
        return TemplateResponse(request, "playground/run/run_approvals.html", context, status=status)
    if not conflict:
        return redirect("playground:run", pk=run.pk)
    page = {"title": run.title, **read_page(run, user=request.user, now=now), "conflict": conflict}
    return TemplateResponse(request, "playground/run/run.html", page, status=status)


@require_safe
@admin_page(*SEE)
def actions(request: StaffRequest) -> HttpResponse:
    inbox = read_inbox(user=request.user, now=timezone.now())
    template = "actions_list" if request.htmx else "actions"
    return TemplateResponse(request, f"playground/actions/{template}.html", {"title": "Proposed actions", **inbox})
