"""Runs and their proposed actions in the admin's index; what they lead to are the playground's own pages."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from llmcore.models import PermitTicket
from playground.access import visible_runs
from playground.models import DecisionRecord, ProposedAction, Run


class ReadOnlyAdmin(admin.ModelAdmin):
    """An entry whose rows nobody adds, changes or deletes here."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class PageEntry(ReadOnlyAdmin):
    """An entry that leads to a page of the playground, for those who see runs."""

    page: ClassVar[str]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        user = request.user
        return user.has_perm("playground.view_run") or user.has_perm("playground.view_all_runs")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        return redirect(self.page)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        return redirect(self.page)


@admin.register(Run)
class RunAdmin(PageEntry):
    """The entry "Playground runs"."""

    page = "playground:runs"

    def has_view_permission(self, request: HttpRequest, obj: Run | None = None) -> bool:
        if obj is not None:
            return visible_runs(request.user).filter(pk=obj.pk).exists()
        return super().has_view_permission(request)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        return redirect("playground:run", pk=object_id)


@admin.register(ProposedAction)
class ProposedActionAdmin(PageEntry):
    """The entry "Proposed actions"; `playground.menu` adds how many wait."""

    page = "playground:actions"


@admin.register(PermitTicket)
class CallsInFlightAdmin(PageEntry):
    """The entry "Calls in flight", also where Redis counts them."""

    page = "playground:calls"


@admin.register(DecisionRecord)
class DecisionRecordAdmin(ReadOnlyAdmin):
    """The audit of decisions, to be read only."""

    list_display = ["at", "decision", "tool", "username", "run_id", "session", "rule", "again", "turn_digest"]
    list_filter = ["decision", "at"]
    search_fields = ["username", "session", "tool", "turn_digest", "key"]
