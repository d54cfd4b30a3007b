"""The admin of this site: what belongs to the runtime and to its playground stands under one heading."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest

RUNTIME, PAGES = "llmcore", "playground"


class SiteAdmin(AdminSite):
    """The admin site, with the runs of the playground among the runtime's models."""

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        apps = super().get_app_list(request)
        runtime = next((app for app in apps if app["app_label"] == RUNTIME), None)
        pages = next((app for app in apps if app["app_label"] == PAGES), None)
        if runtime and pages:
            runtime["models"] = sorted([*runtime["models"], *pages["models"]], key=lambda model: model["name"].lower())
            apps.remove(pages)
        return [app for app in apps if app_label in (None, app["app_label"])]
