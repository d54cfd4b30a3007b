"""The list of runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.http import HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from playground.forms.runs import LiveRowsForm, RunFilterForm, query_of
from playground.models import Run
from playground.reading.ends import STATUS_LOOKS
from playground.reading.run_rows import Scale, run_rows
from playground.services.list_runs import RunFilters, count_by_status, list_runs, runs_by_id
from playground.views import StaffRequest, admin_page

MAY_LIST = ("playground.view_run", "playground.view_all_runs")


@admin_page(*MAY_LIST)
@require_safe
def runs(request: StaffRequest) -> HttpResponse:
    form = filter_form(request)
    filters = form.filters()
    page = list_runs(user=request.user, filters=filters, **cursor(request))
    context = {
        "title": "Runs",
        "form": form,
        "filters": filters,
        "described": form.described(),
        **status_chips(request, filters),
        **table(page.runs, filters),
        "page": {
            "newer": query_of(filters, after=page.newer) if page.newer else "",
            "older": query_of(filters, before=page.older) if page.older else "",
        },
    }
    return TemplateResponse(request, "playground/runs/runs.html", context)


@admin_page(*MAY_LIST)
@require_safe
def runs_live(request: StaffRequest) -> HttpResponse:
    """The rows of runs that were running when they were last shown, for a table that stands on a page already."""
    asked = LiveRowsForm(request.GET)
    if not asked.is_valid():
        return HttpResponse("Which rows, and on which scale?", status=400, content_type="text/plain")
    scale = Scale(tokens=asked.cleaned_data["tokens"], ms=asked.cleaned_data["ms"])
    filters = filter_form(request).filters() if asked.cleaned_data["chips"] else None
    context = table(runs_by_id(user=request.user, ids=asked.cleaned_data["ids"]), filters, scale)
    if filters is not None:
        context |= status_chips(request, filters)
    return TemplateResponse(request, "playground/runs/runs_live.html", context)


def filter_form(request: StaffRequest) -> RunFilterForm:
    return RunFilterForm(request.GET, sees_all=request.user.has_perm("playground.view_all_runs"))


def cursor(request: StaffRequest) -> dict[str, int]:
    """`before` or `after` from the address; anything that isn't an id shows the newest runs."""
    given = {name: request.GET.get(name, "") for name in ("before", "after")}
    return {name: int(value) for name, value in given.items() if value.isdecimal() and len(value) < 19}


def table(runs: Iterable[Run], filters: RunFilters | None = None, scale: Scale | None = None) -> dict[str, Any]:
    """What `runs_table.html` shows; with `filters`, the counts of the page are kept up to date like its rows."""
    rows = run_rows(runs, now=timezone.now(), scale=scale)
    context: dict[str, Any] = {"rows": rows, "scale": rows[0].scale if rows else None}
    if running := [row for row in rows if row.live]:
        scale = running[0].scale
        context["live_query"] = query_of(
            filters or RunFilters(),
            ids=",".join(str(row.run.pk) for row in running),
            tokens=scale.tokens,
            ms=scale.ms,
            chips=None if filters is None else 1,
        )
    return context


def status_chips(request: StaffRequest, filters: RunFilters) -> dict[str, Any]:
    """The statuses that occur, and the chosen one, each with its number of runs."""
    counts = count_by_status(user=request.user, filters=filters)
    chips = [
        {
            "look": look,
            "count": counts.get(status, 0),
            "query": query_of(RunFilters(status=status, configuration=filters.configuration, mine=filters.mine)),
            "chosen": filters.status is status,
        }
        for status, look in STATUS_LOOKS.items()
        if counts.get(status) or filters.status is status
    ]
    everything = query_of(RunFilters(configuration=filters.configuration, mine=filters.mine))
    return {"chips": chips, "total": sum(counts.values()), "all_query": everything}
