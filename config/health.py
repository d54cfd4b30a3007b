"""The address `/healthz`, for containers and load balancers: whether this process reaches database and broker."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from celery import current_app
from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

logger = logging.getLogger(__name__)

PATH = "/healthz"


@sync_and_async_middleware
def health(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Answers before everything else: who asks comes by this machine's address, without HTTPS and without a login."""
    if iscoroutinefunction(get_response):

        async def answer_async(request: HttpRequest) -> HttpResponseBase:
            return await sync_to_async(report)() if request.path == PATH else await get_response(request)

        return answer_async

    def answer(request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        return report() if request.path == PATH else get_response(request)

    return answer


def report() -> HttpResponse:
    """200 or 503 and one word; what is wrong is in the log, not on the page."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        with current_app.connection_for_write() as broker:
            broker.ensure_connection(max_retries=1, interval_start=0.1, timeout=2)
    except Exception as error:
        logger.warning("not healthy: %s: %s", type(error).__name__, error)
        response = HttpResponse("unavailable\n", status=503, content_type="text/plain")
    else:
        response = HttpResponse("ok\n", content_type="text/plain")
    response["Cache-Control"] = "no-store"
    return response
