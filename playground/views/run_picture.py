"""A picture that was sent to a model, by its bytes."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from playground.models import Run
from playground.reading.pictures import find_picture
from playground.views import StaffRequest, admin_page
from playground.views.run import SEE


@require_safe
@admin_page(*SEE)
def run_picture(request: StaffRequest, run: Run, digest: str, part: int) -> HttpResponse:
    """As what its bytes say that it is, never as a page of this site: anybody may have made it."""
    try:
        found = find_picture(run, digest, part)
    except LookupError as error:
        raise Http404(str(error)) from error
    if found is None:
        response = HttpResponse(_("This picture is no longer stored."), status=410, content_type="text/plain")
    else:
        response = HttpResponse(found[0], content_type=found[1])
        response["Content-Disposition"] = "inline"
    response["X-Content-Type-Options"] = "nosniff"
    # The page that a browser makes around a picture has styles of the browser's own.
    response["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
    response["Cross-Origin-Resource-Policy"] = "same-origin"
    add_never_cache_headers(response)
    return response
