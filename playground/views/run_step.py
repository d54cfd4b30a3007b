"""The detail of one step, and pieces of it that are fetched when they are opened."""

from __future__ import annotations

from django.http import Http404, HttpResponse, HttpResponseBase, QueryDict, StreamingHttpResponse
from django.template.response import TemplateResponse
from django.utils.cache import add_never_cache_headers

from playground.models import Run
from playground.reading.boxes import Box, next_view
from playground.reading.detail import read_detail
from playground.reading.files import BoxFile
from playground.reading.json_tree import JsonTree, find
from playground.reading.panels.base import Query
from playground.reading.step_record import StepRecord
from playground.views import StaffRequest, admin_page


@admin_page("playground.view_run", "playground.view_all_runs")
def run_step(request: StaffRequest, run: Run, sequence: int) -> HttpResponseBase:
    query = read_query(request.GET)
    try:
        record = StepRecord(run, sequence, user=request.user)
        detail = read_detail(record, request.GET.get("tab", ""), query)
    except LookupError as error:
        raise Http404(str(error)) from error
    if name := request.GET.get("box"):
        box = detail.panel.box(name)
        if box is None:
            raise Http404(f"no box {name}")
        return piece_of(request, record, box)
    template = "panel" if query != Query() else "step_detail"
    return TemplateResponse(
        request, f"playground/run/{template}.html", {"run": run, "detail": detail, **detail.panel.context}
    )


def file_of(record: StepRecord, box: Box) -> StreamingHttpResponse:
    """The whole of a box as a file, which no browser takes for a page: models and tools wrote it."""
    file = BoxFile(record.run, record.sequence, box)
    response = StreamingHttpResponse(file.pieces(), content_type=file.content_type)
    response["Content-Length"] = box.size
    response["Content-Disposition"] = f'attachment; filename="{file.name}"'
    response["X-Content-Type-Options"] = "nosniff"
    add_never_cache_headers(response)
    return response


def piece_of(request: StaffRequest, record: StepRecord, box: Box) -> HttpResponseBase:
    """The whole of a box as a file or plain text, the next chunk of its text, or a part of its tree."""
    query = request.GET
    if query.get("as") == "file":
        return file_of(record, box)
    if query.get("as") == "text":
        return HttpResponse(box.text, content_type="text/plain; charset=utf-8")
    url = box_url(request, record, box)
    if "pointer" not in query:
        view = next_view(box.text, number(query, "offset") or 0)
        return TemplateResponse(request, "playground/run/chunk.html", {"view": view, "url": url})
    tree, offset = JsonTree(url), number(query, "offset")
    try:
        value = find(box.value, query["pointer"])
        if offset is None:
            return HttpResponse(tree.value(value, query["pointer"]))
        return HttpResponse(tree.rest(value, query["pointer"], offset))
    except LookupError as error:
        raise Http404(str(error)) from error


def box_url(request: StaffRequest, record: StepRecord, box: Box) -> str:
    """Where further pieces of `box` are fetched: the same panel, as it was asked for."""
    kept = {name: request.GET[name] for name in ("tab", "message") if name in request.GET}
    return record.url(**kept, box=box.name)


def read_query(query: QueryDict) -> Query:
    """The piece of a panel that is asked for. Offsets inside a box belong to the box."""
    if "box" in query:
        return Query(message=number(query, "message"), box=query.get("box", ""))
    return Query(
        message=number(query, "message"),
        kept="kept" in query,
        offset=number(query, "offset") or 0,
        part=query.get("part", ""),
    )


def number(query: QueryDict, name: str) -> int | None:
    """A whole number of at most nine digits; anything else counts as not given."""
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None
