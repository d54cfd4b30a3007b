"""What is answered to a form that starts a run: to the browser, or to the script that sent it."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from playground import access
from playground.models import Run
from playground.views import StaffRequest
from playground.views.run import run_page


def answer_started(request: StaffRequest, run: Run, *, in_place: bool = False) -> HttpResponseBase:
    """A redirect to the page of `run`. A script gets its address (201, `Location`) and with `in_place` the page too,
    which takes the place of the form's, where who started it may see it."""
    if not request.htmx:
        return redirect("playground:run", pk=run.pk)
    response = HttpResponse(status=201)
    if in_place and access.may_see(request.user, run):
        response = page = run_page(request, run)
        # Of the frame, only what tells the tab's name is looked at.
        page.context_data = {**(page.context_data or {}), "site_title": admin.site.site_title}
        response.status_code = 201
    response.headers["Location"] = reverse("playground:run", args=[run.pk])
    return response


def answer_refused() -> HttpResponse:
    """What a script is told of a form that starts nothing. It lets the browser send it then, for the page that says
    why."""
    return HttpResponse(status=204)
