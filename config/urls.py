"""The site's addresses."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="playground:runs")),
    # Before the admin's own catch-all.
    path("admin/playground/", include("playground.urls")),
    path("admin/", admin.site.urls),
]
