"""The page of a run: what it did, round by round."""

from __future__ import annotations

from django.http import HttpRequest
from django.template.response import TemplateResponse

from playground.models import Run
from playground.views import admin_page


@admin_page("playground.view_run", "playground.view_all_runs")
def run(request: HttpRequest, run: Run) -> TemplateResponse:
    return TemplateResponse(request, "playground/run/run.html", {"title": run.title, "run": run})
