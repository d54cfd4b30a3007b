"""Answers whose pieces have to arrive when they are made."""

from __future__ import annotations

from django.http import StreamingHttpResponse


def send_at_once(response: StreamingHttpResponse) -> None:
    """Ask all that is between here and the browser to pass each piece on as it is."""
    # A proxy would collect them.
    response.headers["X-Accel-Buffering"] = "no"
    # Django's GZipMiddleware would pack each by itself, and browsers read the first of several packages only.
    response.headers["Content-Encoding"] = "identity"
