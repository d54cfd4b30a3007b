"""News of a run while it is going on: as a stream of server-sent events and, where none gets through, on demand."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator

from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.core.handlers.asgi import ASGIRequest
from django.db import InterfaceError, OperationalError, connection
from django.http import HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.utils.cache import add_never_cache_headers

from playground.models import Run
from playground.reading.watch import Event, Watch
from playground.views import StaffRequest, admin_page
from playground.views.pieces import send_at_once
from playground.wakeups import wakeups

logger = logging.getLogger(__name__)

# Beats keep proxies from closing a silent stream and tell the page that it is still open; as often the reader's rights
# are looked at again.
HEARTBEAT_S = 10.0
# A stream ends by itself after this time and the page opens the next: what a stream holds is bounded.
LIFETIME_S = 900.0
RECONNECT_MS = 1000


@admin_page("playground.view_run", "playground.view_all_runs")
async def run_events(request: StaffRequest, run: Run) -> HttpResponseBase:
    """Goes on after the step that the browser saw last (`Last-Event-ID`), else after `?after=`."""
    if not isinstance(request, ASGIRequest):
        # Such a server would collect the whole stream before it sends it; the page asks for updates instead.
        return HttpResponse("This server can't stream.", status=501, content_type="text/plain")
    watch = watch_of(request, run)
    response = StreamingHttpResponse(stream(request, watch), content_type="text/event-stream")
    add_never_cache_headers(response)
    send_at_once(response)
    return response


@admin_page("playground.view_run", "playground.view_all_runs")
def run_updates(request: StaffRequest, run: Run) -> JsonResponse:
    """The same news since `?after=` and `?revision=`, once; `after` and `revision` are where to go on."""
    watch = watch_of(request, run)
    events = watch.look()
    response = JsonResponse(
        {
            "events": [event.to_json() for event in events],
            "after": watch.after,
            "revision": watch.revision,
            "ended": watch.ended,
        }
    )
    add_never_cache_headers(response)
    return response


def watch_of(request: StaffRequest, run: Run) -> Watch:
    after = request.headers.get("Last-Event-ID") or request.GET.get("after", "")
    revision = request.GET.get("revision", "")
    resumed = "Last-Event-ID" in request.headers
    return Watch(
        run_id=run.pk,
        user=request.user,
        after=int(after) if is_number(after) else 0,
        # A browser that comes back repeats the address of its first visit: only the event's id is news then.
        revision=int(revision) if is_number(revision) and not resumed else None,
    )


def is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


async def stream(request: StaffRequest, watch: Watch) -> AsyncIterator[str]:
    opened = said = checked = time.monotonic()
    try:
        yield f"retry: {RECONNECT_MS}\n\n"
        async with wakeups(watch.run_id) as waking:
            while (now := time.monotonic()) - opened < LIFETIME_S:
                # Also while there is news all the time, and before what is new is looked for.
                if max(now - checked, now - said) > HEARTBEAT_S:
                    if not await sync_to_async(still_welcome)(request, watch):
                        return
                    checked = now
                events = await sync_to_async(look)(watch)
                for event in events:
                    yield event.encode()
                if watch.ended:
                    return
                if events:
                    said = time.monotonic()
                elif now - said > HEARTBEAT_S:
                    yield "event: beat\ndata: {}\n\n"
                    said = time.monotonic()
                await waking.wait()
    except (OperationalError, InterfaceError) as error:
        # The page comes back, and says that updates are lost as long as it comes in vain.
        logger.warning("the live page of run %s lost the database: %s", watch.run_id, error)
    finally:
        await sync_to_async(leave)()


def look(watch: Watch) -> list[Event]:
    events = watch.look()
    if connection.settings_dict["OPTIONS"].get("pool"):
        # A stream waits nearly all of its time: others need the connection.
        connection.close()
    return events


def leave() -> None:
    """A connection belongs to the thread that opened it, so this runs where `look` did."""
    connection.close()


def still_welcome(request: StaffRequest, watch: Watch) -> bool:
    """Whether the reader is still logged in and staff; `look` checks the right to the run, with fresh permissions."""
    watch.user = get_user_model().objects.filter(pk=watch.user.pk, is_active=True, is_staff=True).first()
    key = request.session.session_key
    return watch.user is not None and key is not None and request.session.exists(key)
