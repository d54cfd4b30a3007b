"""Action rules in the admin, with a page that says what they would do to a call."""

from __future__ import annotations

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from llmcore.forms.rules import SimulatedCallForm
from llmcore.mcp_servers import every_tool
from llmcore.models import ActionRule
from llmcore.simulation import simulate


@admin.register(ActionRule)
class ActionRuleAdmin(admin.ModelAdmin):
    """What is approved, asked for or denied before anybody is asked."""

    class Media:
        css = {"all": ["llmcore/admin.css"]}

    change_list_template = "admin/llmcore/rules.html"
    list_display = ["name", "ruling", "tool", "argument", "pattern", "whose", "position", "enabled"]
    list_editable = ["position", "enabled"]
    list_filter = ["ruling", "enabled"]
    search_fields = ["name", "tool", "pattern"]
    # To choose from a list, users would have to be in the admin, and a site may keep its own elsewhere.
    raw_id_fields = ["user"]
    list_select_related = ["user", "group"]
    fieldsets = [
        (None, {"fields": ["name", "ruling", "enabled", "position"]}),
        (
            gettext_lazy("Which calls"),
            {
                "fields": ["tool", "argument", "pattern"],
                "description": gettext_lazy(
                    "Deny beats require approval, and that beats approve automatically, whatever the order. A shell "
                    "line with any operator, substitution or expansion is never approved automatically."
                ),
            },
        ),
        (gettext_lazy("Whose runs"), {"fields": ["user", "group"]}),
    ]

    @admin.display(description=gettext_lazy("runs of"), empty_value="–")
    def whose(self, obj: ActionRule) -> str:
        return str(obj.user or obj.group or "")

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.try_view)
        return [path("try/", view, name="llmcore_actionrule_try"), *super().get_urls()]

    def try_view(self, request: HttpRequest) -> HttpResponse:
        """What would happen to a call, and which rule says so. Nothing runs and nothing is stored."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        known = dict(every_tool())
        form = SimulatedCallForm(request.POST or None, known=known)
        result = None
        if form.is_valid():
            data = form.cleaned_data
            result = simulate(
                tool=known[data["tool"]],
                arguments=data["arguments"],
                user=data["user"],
                configuration=data["configuration"],
            )
        context = {
            **self.admin_site.each_context(request),
            "title": _("Try the rules"),
            "opts": self.opts,
            "form": form,
            "result": result,
        }
        return TemplateResponse(request, "admin/llmcore/rules_try.html", context)
