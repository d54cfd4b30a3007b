"""The form that starts a run, with its preview."""

from __future__ import annotations

from django.http import HttpRequest
from django.template.response import TemplateResponse

from playground.views import admin_page


@admin_page("playground.add_run")
def new_run(request: HttpRequest) -> TemplateResponse:
    return TemplateResponse(request, "playground/new_run/new_run.html", {"title": "New run"})


@admin_page("playground.add_run")
def preview(request: HttpRequest) -> TemplateResponse:
    return TemplateResponse(request, "playground/new_run/preview.html", {})
