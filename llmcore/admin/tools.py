"""The tools of the site in the admin: one page that switches them and their groups on and off, and their presets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from llmcore.forms.tools import ToolPresetForm, ToolSwitchesForm
from llmcore.mcp_servers import every_tool
from llmcore.models import ToolGroupSwitch, ToolPreset, ToolSwitch

CHANGE_GROUPS = "llmcore.change_toolgroupswitch"


@admin.register(ToolSwitch)
class ToolSwitchAdmin(admin.ModelAdmin):
    """All known tools on one page; a row exists only for what was ever switched."""

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.changelist_view)
        return [path("", view, name="llmcore_toolswitch_changelist")]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        editable_tools, editable_groups = self.has_change_permission(request), request.user.has_perm(CHANGE_GROUPS)
        editable = editable_tools or editable_groups
        if request.method == "POST" and not editable:
            raise PermissionDenied
        form = ToolSwitchesForm(
            request.POST if request.method == "POST" else None,
            known=every_tool(),
            tools=dict(ToolSwitch.objects.values_list("name", "enabled")),
            groups=dict(ToolGroupSwitch.objects.values_list("name", "enabled")),
            editable_tools=editable_tools,
            editable_groups=editable_groups,
        )
        if form.is_bound and form.is_valid():
            self.switch(request, form)
            messages.success(request, _("The tools were saved."))
            return redirect("admin:llmcore_toolswitch_changelist")
        context = {
            **self.admin_site.each_context(request),
            "title": _("Tools of this site"),
            "opts": self.opts,
            "form": form,
            "editable": editable,
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/llmcore/tools.html", context)

    @transaction.atomic
    def switch(self, request: HttpRequest, form: ToolSwitchesForm) -> None:
        changes: tuple[tuple[type[ToolSwitch] | type[ToolGroupSwitch], Mapping[str, bool]], ...] = (
            (ToolSwitch, form.changes("tool")),
            (ToolGroupSwitch, form.changes("group")),
        )
        for model, moved in changes:
            for name, enabled in moved.items():
                row, _created = model.objects.update_or_create(name=name, defaults={"enabled": enabled})
                self.log_change(request, row, _("Switched on.") if enabled else _("Switched off."))


@admin.register(ToolPreset)
class ToolPresetAdmin(admin.ModelAdmin):
    """Named sets of tools, for configurations and for the form of a new run."""

    class Media:
        css = {"all": ["llmcore/admin.css"]}

    form = ToolPresetForm
    list_display = ["name", "description", "tool_names", "used_by"]
    search_fields = ["name", "slug", "description"]
    prepopulated_fields = {"slug": ["name"]}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        counted: QuerySet[Any] = rows.annotate(used_by_count=Count("configurations"))
        return counted

    @admin.display(description=gettext_lazy("tools"))
    def tool_names(self, obj: ToolPreset) -> str:
        return ", ".join(map(str, obj.tools))

    @admin.display(description=gettext_lazy("used by"), ordering="used_by_count")
    def used_by(self, obj: Any) -> int:
        count: int = obj.used_by_count
        return count
