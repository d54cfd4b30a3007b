"""Counts in the admin's menu: how many proposed actions wait for whoever looks at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from playground.access import decidable_count
from playground.models import ProposedAction


class WaitingActionsInMenu:
    """Middleware that adds the number to the entry “Proposed actions” on every page that has the admin's menu."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_template_response(self, request: HttpRequest, response: TemplateResponse) -> TemplateResponse:
        context = response.context_data or {}
        entries = [entry for name in ("available_apps", "app_list") for entry in _entries(context.get(name))]
        if entries and (waiting := decidable_count(request.user)):
            for entry in entries:
                entry["name"] = f"{entry['name']} ({waiting})"
        return response


def _entries(apps: Any) -> list[dict[str, Any]]:
    """The entry of proposed actions, as the admin lists it."""
    # A site may list it under another app's heading.
    return [entry for app in apps or () for entry in app["models"] if entry.get("model") is ProposedAction]
