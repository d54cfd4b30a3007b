"""The pages of the playground: one module per screen, each view behind the guard that is defined here."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.contrib import admin
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.cache import patch_cache_control
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from llmcore.conf import settings
from llmcore.database_access import outside_transactions
from playground.access import visible_runs
from playground.models import Run

View = Callable[..., Any]


class StaffRequest(HttpRequest):
    """A request that the guard let in, as views see it."""

    user: User
    htmx: HtmxDetails


def admin_page(*permissions: str) -> Callable[[View], View]:
    """Lets staff with any of `permissions` in, as the admin does; without one, staff are enough.

    Others get the admin's login page, or 403. A view that takes a run's `pk` gets the `run` instead, and 404 where the
    user may not see it. A `TemplateResponse` that is a page, not a fragment, gets what every page of the admin has in
    its context. Asynchronous views are guarded the same way. A site without a content policy gets ours for the page.
    One with ATOMIC_REQUESTS puts no transaction around it: pages wait for what workers write.
    """

    def decorate(view: View) -> View:
        if iscoroutinefunction(view):

            @outside_transactions
            @wraps(view)
            async def guarded_async(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
                refusal = await sync_to_async(check)(request, permissions, kwargs)
                return finished(request, refusal or await view(request, **kwargs))

            return guarded_async

        @outside_transactions
        @wraps(view)
        def guarded(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
            response = check(request, permissions, kwargs) or in_admin(request, view(request, **kwargs))
            return finished(request, response)

        return guarded

    return decorate


def check(request: HttpRequest, permissions: tuple[str, ...], kwargs: dict[str, Any]) -> HttpResponse | None:
    """The refusal, or `None`; then `kwargs` hold the `run` in place of its `pk`."""
    if not hasattr(request, "htmx"):
        # As its middleware does, which a site need not have.
        request.htmx = HtmxDetails(request)  # type: ignore[attr-defined]
    if not admin.site.has_permission(request):
        return to_login(request)
    if permissions and not any(request.user.has_perm(permission) for permission in permissions):
        raise PermissionDenied
    if "pk" in kwargs:
        kwargs["run"] = visible_run(request, kwargs.pop("pk"))
    return None


def visible_run(request: HttpRequest, pk: int) -> Run:
    runs = visible_runs(request.user).select_related("user", "configuration")
    # Either may be megabytes, and few views need them.
    run = runs.defer("prompt", "request").filter(pk=pk).first()
    if run is None:
        raise Http404
    return run


def to_login(request: HttpRequest) -> HttpResponse:
    """A script must not take the login page for what it asked for: it is told to go there, or refused."""
    login = reverse("admin:login")
    if request.htmx:  # type: ignore[attr-defined]
        page = request.htmx.current_url_abs_path or reverse("admin:index")  # type: ignore[attr-defined]
        return HttpResponseClientRedirect(redirect_to_login(page, login).url)
    if "text/html" not in request.headers.get("Accept", "text/html"):
        return HttpResponse("You are not logged in.", status=403, content_type="text/plain")
    return redirect_to_login(request.get_full_path(), login)


def in_admin(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    is_fragment = bool(request.htmx)  # type: ignore[attr-defined]
    if isinstance(response, TemplateResponse) and not response.is_rendered and not is_fragment:
        response.context_data = {**admin.site.each_context(request), **(response.context_data or {})}
    return response


def finished(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """`response` for its reader alone: a site that caches all of its pages would show it again when it is outdated."""
    patch_cache_control(response, private=True)
    return with_policy(request, response)


def with_policy(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """`response` with our content policy, unless a middleware of the site is going to give it one of its own."""
    # django-csp and Django itself prepare a nonce on the request.
    has_policy = hasattr(request, "csp_nonce") or hasattr(request, "_csp_nonce")
    if (policy := settings.LLM_CONTENT_SECURITY_POLICY) and not has_policy:
        response.headers.setdefault("Content-Security-Policy", policy)
    return response
