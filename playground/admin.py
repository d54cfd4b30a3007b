"""Runs in the admin's index and search; what they lead to are the playground's own pages."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from playground.access import visible_runs
from playground.models import Run


@admin.register(Run)
class RunAdmin(admin.ModelAdmin):
    """The entry "Playground runs"."""

    def has_view_permission(self, request: HttpRequest, obj: Run | None = None) -> bool:
        user = request.user
        if obj is not None:
            return visible_runs(user).filter(pk=obj.pk).exists()
        return user.has_perm("playground.view_run") or user.has_perm("playground.view_all_runs")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Run | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Run | None = None) -> bool:
        return False

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        return redirect("playground:runs")

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        return redirect("playground:run", pk=object_id)
