"""The page of a run: what it did, round by round, and what can be done about it."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from llmcore.errors import ConfigurationError
from playground import access
from playground.models import Run
from playground.reading.beginning import is_beginning
from playground.reading.page import read_head, read_page
from playground.reading.step_rows import is_live
from playground.services import cancel_run, continue_run, delete_run, export_run, run_for_real
from playground.views import StaffRequest, admin_page
from playground.views.run_beginning import beginning_page
from playground.views.run_step import number
from playground.views.run_steps import read_filter

SEE = ("playground.view_run", "playground.view_all_runs")


@admin_page(*SEE)
def run(request: StaffRequest, run: Run) -> TemplateResponse:
    return run_page(request, run)


def run_page(request: StaffRequest, run: Run) -> TemplateResponse:
    if is_beginning(run, now=timezone.now()):
        return beginning_page(request, run)
    at, filter = number(request.GET, "at"), read_filter(request.GET)
    page = read_page(run, user=request.user, now=timezone.now(), at=at, filter=filter)
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


@require_POST
@admin_page("playground.add_run")
def run_real(request: StaffRequest, run: Run) -> HttpResponse:
    """Starts a dry run's request for real."""
    try:
        started = run_for_real.run_for_real(run=run, by=request.user)
    except ConfigurationError as error:
        messages.error(request, str(error))
        return redirect("playground:run", pk=run.pk)
    return redirect("playground:run", pk=started.pk)


@require_http_methods(["GET", "HEAD", "POST"])
@admin_page(*SEE)
def run_delete(request: StaffRequest, run: Run) -> HttpResponse:
    """Asks once more, then deletes."""
    if not access.may_delete(request.user, run):
        raise PermissionDenied
    if request.method == "POST" and delete_run.delete_run(run=run, by=request.user):
        messages.success(request, f"Run {run.pk}, “{run.title}”, was deleted.")
        return redirect("playground:runs")
    context = {"title": f"Delete run {run.pk}", "run": run, "live": is_live(run), "children": run.children.count()}
    return TemplateResponse(request, "playground/run/run_delete.html", context, status=409 if context["live"] else 200)


@admin_page(*SEE)
def run_export(request: StaffRequest, run: Run) -> JsonResponse:
    """The whole run as a file; captured requests and responses only for those who may see them."""
    exported = export_run.export_run(run=run, raw=access.may_see_raw(request.user, run))
    response = JsonResponse(exported, json_dumps_params={"ensure_ascii": False, "indent": 1})
    response["Content-Disposition"] = f'attachment; filename="run-{run.pk}.json"'
    return response
