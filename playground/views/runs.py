"""The list of runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from django.http import HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from playground import access
from playground.filters import EVERYTHING, RunFilters
from playground.forms.runs import LiveRowsForm, RunFilterForm, query_of, within_period
from playground.models import Run
from playground.reading.ends import STATUS_LOOKS
from playground.reading.run_rows import Scale, run_rows
from playground.services.filter_choices import load_filter_choices
from playground.services.list_runs import RunCounts, count_runs, list_runs, runs_by_id
from playground.views import StaffRequest, admin_page

MAY_LIST = ("playground.view_run", "playground.view_all_runs")


@admin_page(*MAY_LIST)
@require_safe
def runs(request: StaffRequest) -> HttpResponse:
    form = filter_form(request)
    filters = form.filters()
    now = timezone.now()
    page = list_runs(user=request.user, filters=filters, now=now, **cursor(request))
    counts = count_runs(user=request.user, filters=filters, now=now)
    applied = form.applied(filters)
    form.count_outcomes(counts.of_outcome)
    context = {
        "title": "Runs",
        "form": form,
        "filters": filters,
        "counts": counts,
        "period": within_period(filters),
        "described": ", ".join(f"{one.label} {one.value}".strip() for one in applied),
        # The chips of the statuses stand for themselves.
        "applied": [
            {"filter": one, "query": query_of(filters.without(*one.names))}
            for one in applied
            if one.names != ("status",)
        ],
        "export_query": query_of(filters),
        "selectable": True,
        "may_tag": any(access.may_annotate(request.user, run) for run in page.runs),
        **status_chips(filters, counts),
        **table(page.runs, filters, search=filters.search),
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
    search = filters.search if filters else ""
    found = runs_by_id(user=request.user, ids=asked.cleaned_data["ids"], search=search)
    context = table(found, filters, scale, search)
    if filters is not None:
        counts = count_runs(user=request.user, filters=filters)
        context |= {"filters": filters, "selectable": True, **status_chips(filters, counts)}
    return TemplateResponse(request, "playground/runs/runs_live.html", context)


def filter_form(request: StaffRequest) -> RunFilterForm:
    return RunFilterForm(
        request.GET,
        choices=load_filter_choices(user=request.user),
        sees_all=request.user.has_perm("playground.view_all_runs"),
    )


def cursor(request: StaffRequest) -> dict[str, int]:
    """`before` or `after` from the address; anything that isn't an id shows the newest runs."""
    given = {name: request.GET.get(name, "") for name in ("before", "after")}
    return {name: int(value) for name, value in given.items() if value.isdecimal() and len(value) < 19}


def table(
    runs: Iterable[Run], filters: RunFilters | None = None, scale: Scale | None = None, search: str = ""
) -> dict[str, Any]:
    """What `runs_table.html` shows; with `filters`, the counts of the page are kept up to date like its rows."""
    rows = run_rows(runs, now=timezone.now(), scale=scale, search=search)
    context: dict[str, Any] = {"rows": rows, "scale": rows[0].scale if rows else None}
    if running := [row for row in rows if row.live]:
        scale = running[0].scale
        context["live_query"] = query_of(
            filters or EVERYTHING,
            ids=",".join(str(row.run.pk) for row in running),
            tokens=scale.tokens,
            ms=scale.ms,
            chips=None if filters is None else 1,
        )
    return context


def status_chips(filters: RunFilters, counts: RunCounts) -> dict[str, Any]:
    """The statuses that occur, and the chosen one, each with its number of runs."""
    chips = [
        {
            "status": status.value,
            "look": look,
            "count": counts.of_status.get(status, 0),
            "query": query_of(replace(filters, status=status)),
            "chosen": filters.status is status,
        }
        for status, look in STATUS_LOOKS.items()
        if counts.of_status.get(status) or filters.status is status
    ]
    return {"chips": chips, "total": counts.of_any_status, "all_query": query_of(filters.without("status"))}
