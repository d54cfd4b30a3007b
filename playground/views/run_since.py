"""The page that sets a run's sources, as they were, beside what they say now."""

from __future__ import annotations

from django.template.response import TemplateResponse

from playground.models import Run
from playground.reading.since import read_since
from playground.views import StaffRequest, admin_page
from playground.views.run import SEE


@admin_page(*SEE)
def run_since(request: StaffRequest, run: Run) -> TemplateResponse:
    context = {
        "title": f"Changed since run {run.pk}",
        "run": run,
        "since": read_since(run, user=request.user),
        "may_start": request.user.has_perm("playground.add_run"),
    }
    return TemplateResponse(request, "playground/run/run_since.html", context)
