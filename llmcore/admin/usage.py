"""Usage records in the admin, to be read only: they are what was billed."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
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


def grouped(count: int | None) -> str | None:
    """A count with its thousands apart; nothing stays unknown."""
    return None if count is None else f"{count:,}"


@admin.register(UsageRecord)
class UsageRecordAdmin(admin.ModelAdmin):
    """What each provider call used and cost."""

    class Media:
        css = {"all": ["llmcore/admin.css"]}

    list_display = [
        "time",
        "model_name",
        "run",
        "input",
        "cached",
        "output",
        "price",
        "error",
        "configuration",
        "user",
        "purpose",
        "provider_slug",
    ]
    list_filter = ["created_at", FailedFilter, "purpose", "configuration"]
    list_select_related = ["configuration", "user"]
    empty_value_display = "–"
    search_fields = ["model_name", "provider_slug", "session"]
    search_help_text = gettext_lazy("Model, provider or session.")
    # The whole count of a large table costs more than the page.
    show_full_result_count = False

    @admin.display(description=gettext_lazy("time"), ordering="created_at")
    def time(self, obj: UsageRecord) -> str:
        """As the pages of runs write it, too; with the figures it has room beside the filters."""
        return date_format(timezone.localtime(obj.created_at), "j M Y, H:i:s")

    @admin.display(description=gettext_lazy("run"), ordering="run_id")
    def run(self, obj: UsageRecord) -> str | None:
        """Leads to its page where the site has the playground."""
        if obj.run_id is None:
            return None
        try:
            return format_html('<a href="{}">{}</a>', reverse("playground:run", args=[obj.run_id]), obj.run_id)
        except NoReverseMatch:
            return str(obj.run_id)

    @admin.display(description=gettext_lazy("error"), ordering="error_kind")
    def error(self, obj: UsageRecord) -> str | None:
        return obj.error_kind.replace("_", " ") or None

    @admin.display(description=gettext_lazy("input"), ordering="input_tokens")
    def input(self, obj: UsageRecord) -> str | None:
        return grouped(obj.input_tokens)

    @admin.display(description=gettext_lazy("cached"), ordering="cache_read_input_tokens")
    def cached(self, obj: UsageRecord) -> str | None:
        return grouped(obj.cache_read_input_tokens)

    @admin.display(description=gettext_lazy("output"), ordering="output_tokens")
    def output(self, obj: UsageRecord) -> str | None:
        return grouped(obj.output_tokens)

    @admin.display(description=gettext_lazy("cost"), ordering="cost")
    def price(self, obj: UsageRecord) -> str | None:
        return None if obj.cost is None else f"${obj.cost.normalize():f}"

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: UsageRecord | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: UsageRecord | None = None) -> bool:
        return False
