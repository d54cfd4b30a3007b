"""The list of runs as a file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.core.exceptions import ValidationError
from django.db import connection
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django.views.decorators.http import require_safe

from playground.filters import EVERYTHING
from playground.forms.annotations import MAX_SELECTED
from playground.forms.runs import ids_of
from playground.services.export_list import export_list
from playground.views import StaffRequest, admin_page
from playground.views.pieces import send_at_once
from playground.views.runs import MAY_LIST, filter_form


@admin_page(*MAY_LIST)
@require_safe
async def runs_export(request: StaffRequest) -> HttpResponseBase:
    """The runs of the filters in the address or, where runs are named, those."""
    try:
        run_ids = ids_of(request.GET.getlist("run")[: MAX_SELECTED + 1])
    except ValidationError as error:
        return HttpResponse(error.message, status=400, content_type="text/plain")
    filters = EVERYTHING if run_ids else await sync_to_async(lambda: filter_form(request).filters())()
    now = timezone.now()
    rows = export_list(user=request.user, filters=filters, run_ids=run_ids or None, now=now)
    response = StreamingHttpResponse(stream(rows), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="runs-{timezone.localtime(now):%Y-%m-%d}.csv"'
    add_never_cache_headers(response)
    send_at_once(response)
    return response


async def stream(rows: Iterator[str]) -> AsyncIterator[str]:
    """Each piece is read when the one before has been sent."""
    try:
        while (piece := await sync_to_async(lambda: next(rows, ""))()) != "":
            yield piece
    finally:
        await sync_to_async(leave)()


def leave() -> None:
    """A connection belongs to the thread that opened it; in a transaction, to whoever began that."""
    if not connection.in_atomic_block:
        connection.close()
