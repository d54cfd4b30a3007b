"""The page of a run that was started a moment ago: its head is sent while its first step is still on the way.

A browser takes as long to open a page as a worker to begin a run. With the head it opens the page and reads what the
page needs; nothing of it is to be seen, so the page before stays on the screen until there is something to show.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from functools import partial

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse, StreamingHttpResponse
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.safestring import mark_safe

from playground.models import Run
from playground.reading.beginning import await_first_step
from playground.reading.family import read_surroundings
from playground.reading.page import read_page
from playground.views import StaffRequest
from playground.views.pieces import send_at_once

logger = logging.getLogger(__name__)

# Where the run comes in; nothing that is escaped holds it.
PLACE = "<!-- the run -->"
END_OF_HEAD = "</head>"
NOT_SHOWN = "playground/run/run_not_shown.html"


def beginning_page(request: StaffRequest, run: Run) -> TemplateResponse:
    """Under ASGI in two pieces, else at once when the first step is there or doesn't come."""
    if not isinstance(request, ASGIRequest):
        await_first_step(run)
        page = read_page(run, user=request.user, now=timezone.now())
        return TemplateResponse(request, "playground/run/run.html", {"title": run.title, **page})
    frame = {"title": run.title, "run": run, "begins": mark_safe(PLACE)}  # A constant.
    response = TemplateResponse(request, "playground/run/run.html", frame)
    # After the middlewares that look at the templates of pages.
    response.add_post_render_callback(partial(in_pieces, request, run))
    return response


def in_pieces(request: StaffRequest, run: Run, frame: HttpResponse) -> StreamingHttpResponse:
    head, end_of_head, rest = frame.content.decode().partition(END_OF_HEAD)
    before, _place, after = rest.partition(PLACE)

    async def pieces() -> AsyncIterator[str]:
        yield head + end_of_head
        yield before + await sync_to_async(begun)(request, run) + after

    response = StreamingHttpResponse(pieces(), status=frame.status_code, headers=frame.headers)
    send_at_once(response)
    return response


def begun(request: StaffRequest, run: Run) -> str:
    """The run on its page. It is too late for another status: what goes wrong is said in its place."""
    try:
        # What doesn't depend on the step is read while it is on its way.
        around = read_surroundings(run, user=request.user)
        await_first_step(run)
        if run.user_id == request.user.pk:
            run.user = request.user
        page = read_page(run, user=request.user, now=timezone.now(), around=around)
        return render_to_string("playground/run/run_page.html", page, request)
    except Exception:
        logger.exception("the page of run %s, which was just started, could not be made", run.pk)
        return render_to_string(NOT_SHOWN, {"run": run}, request)
