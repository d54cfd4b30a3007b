"""The list of provider calls that are in flight or wait for a permit."""

from __future__ import annotations

from django.http import HttpResponse
from django.template.response import TemplateResponse
from django.views.decorators.http import require_safe

from playground.reading.calls import read_calls
from playground.views import StaffRequest, admin_page
from playground.views.run import SEE


@require_safe
@admin_page(*SEE)
def calls(request: StaffRequest) -> HttpResponse:
    template = "calls_list" if request.htmx else "calls"
    context = {"title": "Calls in flight", **read_calls(user=request.user)}
    return TemplateResponse(request, f"playground/calls/{template}.html", context)
