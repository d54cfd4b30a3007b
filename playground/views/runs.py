"""The list of runs."""

from __future__ import annotations

from django.http import HttpRequest
from django.template.response import TemplateResponse

from playground.access import visible_runs
from playground.views import admin_page


@admin_page("playground.view_run", "playground.view_all_runs")
def runs(request: HttpRequest) -> TemplateResponse:
    return TemplateResponse(request, "playground/runs/runs.html", {"title": "Runs", "runs": visible_runs(request.user)})
