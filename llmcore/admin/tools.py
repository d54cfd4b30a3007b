"""The tools of the site in the admin: one page that switches them and their groups on and off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext as _

from llmcore.forms.tools import ToolSwitchesForm
from llmcore.models import ToolGroupSwitch, ToolSwitch
from llmcore.tools.registry import all_tools

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
            known=all_tools(),
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
