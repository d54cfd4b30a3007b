"""Looking for a text in one run."""

from __future__ import annotations

from django.http import HttpResponse
from django.template.response import TemplateResponse

from playground.models import Run
from playground.reading.needle import MIN_CHARS, Needle
from playground.reading.run_search import search_run
from playground.views import StaffRequest, admin_page
from playground.views.run_step import number


@admin_page("playground.view_run", "playground.view_all_runs")
def run_search(request: StaffRequest, run: Run) -> HttpResponse:
    """Where `?q=` is found, in the steps after `?after=`."""
    text, after = request.GET.get("q", ""), number(request.GET, "after") or 0
    needle = Needle.of(text)
    context = {
        "run": run,
        "text": text,
        "more": after > 0,
        "too_short": needle is None and bool(text.strip()),
        "least": MIN_CHARS,
        "found": search_run(run, needle, after=after) if needle else None,
    }
    return TemplateResponse(request, "playground/run/run_found.html", context)
