"""The page of a run: what it did, round by round, and what can be done about it."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_POST

from playground import access
from playground.models import Run
from playground.reading.page import read_head, read_page
from playground.services import cancel_run, continue_run, export_run
from playground.views import StaffRequest, admin_page

SEE = ("playground.view_run", "playground.view_all_runs")


@admin_page(*SEE)
def run(request: StaffRequest, run: Run) -> TemplateResponse:
    page = read_page(run, user=request.user, now=timezone.now())
    return TemplateResponse(request, "playground/run/run.html", {"title": run.title, **page})


@require_POST
@admin_page(*SEE)
def run_cancel(request: StaffRequest, run: Run) -> HttpResponse:
    if not access.may_cancel(request.user, run):
        raise PermissionDenied
    cancel_run.cancel_run(run=run, by=request.user, now=timezone.now())
    if not request.htmx:
        return redirect("playground:run", pk=run.pk)
    run.refresh_from_db()
    return TemplateResponse(request, "playground/run/run_head.html", read_head(run, user=request.user))


@require_POST
@admin_page(*SEE)
def run_continue(request: StaffRequest, run: Run) -> HttpResponse:
    if not access.may_continue(request.user, run):
        raise PermissionDenied
    continue_run.continue_run(run=run, by=request.user)
    return redirect("playground:run", pk=run.pk)


@admin_page(*SEE)
def run_export(request: StaffRequest, run: Run) -> JsonResponse:
    """The whole run as a file; captured requests and responses only for those who may see them."""
    exported = export_run.export_run(run=run, raw=access.may_see_raw(request.user, run))
    response = JsonResponse(exported, json_dumps_params={"ensure_ascii": False, "indent": 1})
    response["Content-Disposition"] = f'attachment; filename="run-{run.pk}.json"'
    return response
