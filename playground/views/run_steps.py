"""The step list of a run around one step: a page of a long run holds a part of it, and fetches the others."""

from __future__ import annotations

from typing import cast, get_args

from django.http import HttpResponse, QueryDict
from django.template.response import TemplateResponse
from django.utils import timezone

from playground.models import Run
from playground.reading.lines import START
from playground.reading.page import read_step_list
from playground.reading.window import Find, Kind, StepFilter
from playground.views import StaffRequest, admin_page
from playground.views.run_step import number

MAX_WORDS = 200


@admin_page("playground.view_run", "playground.view_all_runs")
def run_steps(request: StaffRequest, run: Run) -> HttpResponse:
    """Around the step `?at=`, around what is to `?find=` from there, or from the start of `?round=`."""
    query = request.GET
    context = read_step_list(
        run,
        now=timezone.now(),
        at=number(query, "at") or START,
        round=number(query, "round"),
        find=cast(Find, query["find"]) if query.get("find") in get_args(Find) else None,
        filter=read_filter(query),
    )
    return TemplateResponse(request, "playground/run/steps_window.html", context)


def read_filter(query: QueryDict) -> StepFilter:
    kind = query.get("kind")
    known = cast(Kind, kind) if kind in get_args(Kind) else ""
    return StepFilter(kind=known, words=query.get("q", "")[:MAX_WORDS])
