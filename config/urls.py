"""The site's addresses."""

from django.contrib import admin
from django.templatetags.static import static
from django.urls import include, path
from django.utils.functional import lazy
from django.views.decorators.cache import cache_control
from django.views.generic import RedirectView

icon = RedirectView.as_view(url=lazy(static, str)("llmcore/icon.svg"))

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="playground:runs")),
    # Browsers ask for it on every page, the admin's own included, and each time that a page changes its address.
    path("favicon.ico", cache_control(public=True, max_age=86_400)(icon)),
    # Before the admin's own catch-all.
    path("admin/playground/", include("playground.urls")),
    path("admin/", admin.site.urls),
    path("internal/", include("playground.internal_urls")),
]
