"""The comparison of two runs, or of a few, or of two rounds of one."""

from __future__ import annotations

from collections.abc import Sequence

from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.views.decorators.http import require_safe

from playground.reading.compare.page import Shown, read_comparison, read_rounds_of_run, read_table
from playground.reading.compare.sides import MOST, Side, load_sides
from playground.views import StaffRequest, admin_page
from playground.views.run import SEE
from playground.views.run_step import number


@admin_page(*SEE)
@require_safe
def compare(request: StaffRequest) -> HttpResponse:
    """`?a=1&b=2`, with `&a_round=3&b_round=4` for their requests; or `?run=…` for each of two to six runs, as the list
    of runs asks."""
    query = request.GET
    if "run" in query:
        chosen = list(dict.fromkeys(pks_of(query.getlist("run"))))
        if len(chosen) == 2:
            return redirect(Shown().address(*sorted(chosen)))
        if not 2 < len(chosen) <= MOST:
            return ask(request, f"Choose 2 to {MOST} runs in the list, then Compare.", status=400)
        return TemplateResponse(request, "playground/compare/table.html", read_table(sides_of(request, chosen)))
    if "a" not in query and "b" not in query:
        return ask(request, f"Choose 2 to {MOST} runs in the list, then Compare.", status=200)
    chosen = pks_of([query.get("a", ""), query.get("b", "")])
    sides, shown = sides_of(request, chosen), shown_of(query)
    if chosen[0] == chosen[1]:
        rounds = read_rounds_of_run(sides, shown, user=request.user)
        if rounds is None:
            return ask(request, "A run differs from itself in nothing. Choose two runs in the list.", status=400)
        return TemplateResponse(request, "playground/compare/rounds_of_run.html", rounds)
    context = read_comparison(sides, shown, user=request.user)
    return TemplateResponse(request, "playground/compare/compare.html", context)


def ask(request: StaffRequest, what: str, *, status: int) -> HttpResponse:
    context = {"title": "Compare runs", "what": what}
    return TemplateResponse(request, "playground/compare/choose.html", context, status=status)


def pks_of(texts: Sequence[str]) -> list[int]:
    """Numbers of runs; anything else is no run."""
    if any(not (text.isascii() and text.isdecimal() and len(text) < 19) for text in texts):
        raise Http404
    return [int(text) for text in texts]


def sides_of(request: StaffRequest, pks: Sequence[int]) -> list[Side]:
    try:
        return load_sides(pks, user=request.user)
    except LookupError as error:
        raise Http404(str(error)) from error


def shown_of(query: QueryDict) -> Shown:
    return Shown(
        round=max(number(query, "round") or 1, 1),
        a_round=number(query, "a_round"),
        b_round=number(query, "b_round"),
        aligned=query.get("align") == "round",
        side_by_side=query.get("view") == "side",
    )
