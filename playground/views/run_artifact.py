"""An artifact of a run as a file."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.utils.cache import add_never_cache_headers
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from playground.models import Run
from playground.reading.artifacts import find_artifact
from playground.views import StaffRequest, admin_page
from playground.views.run import SEE


@require_safe
@admin_page(*SEE)
def run_artifact(request: StaffRequest, run: Run, sequence: int, index: int) -> HttpResponse:
    """To be saved, never to be opened here: models and tools wrote it, and say themselves what it is."""
    try:
        artifact = find_artifact(run, sequence, index)
    except LookupError as error:
        raise Http404(str(error)) from error
    response = HttpResponse(artifact.text.encode(), content_type="application/octet-stream")
    response["Content-Disposition"] = content_disposition_header(True, artifact.file_name) or "attachment"
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    add_never_cache_headers(response)
    return response
