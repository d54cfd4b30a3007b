"""Usage records in the admin, to be read only: they are what was billed."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from llmcore.models import UsageRecord


class FailedFilter(admin.SimpleListFilter):
    """Calls that failed, or those that didn't."""

    title = gettext_lazy("outcome")
    parameter_name = "failed"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("no", gettext_lazy("answered")), ("yes", gettext_lazy("failed"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[UsageRecord]) -> QuerySet[UsageRecord]:
        match self.value():
            case "no":
                return queryset.filter(error_kind="")
            case "yes":
                return queryset.exclude(error_kind="")
            case _:
                return queryset


@admin.register(UsageRecord)
class UsageRecordAdmin(admin.ModelAdmin):
    """What each provider call used and cost."""

    class Media:
        css = {"all": ["llmcore/admin.css"]}

    list_display = [
        "created_at",
        "model_name",
        "provider_slug",
        "configuration",
        "user",
        "run_id",
        "input_tokens",
        "cache_read_input_tokens",
        "output_tokens",
        "cost",
        "error_kind",
    ]
    list_filter = ["created_at", FailedFilter, "configuration"]
    list_select_related = ["configuration", "user"]
    search_fields = ["model_name", "provider_slug"]
    search_help_text = gettext_lazy("Model or provider.")
    # The whole count of a large table costs more than the page.
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: UsageRecord | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: UsageRecord | None = None) -> bool:
        return False
