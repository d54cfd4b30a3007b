"""Budgets in the admin: how they stand now, and when they came near their limits."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth import get_user_model
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from llmcore.budgets.base import figure, moment, spelled
from llmcore.models import Budget, BudgetCrossing
from llmcore.site_budgets import Standing, standings

# So many users of a budget for each of them are shown, those who used most.
IN_LIST = 3
ON_PAGE = 20


class StandingList(ChangeList):
    """The list, with how its budgets stand, read once for all of them."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        by_budget: dict[int, list[Standing]] = {}
        for standing in standings(self.result_list, now=timezone.now(), most_users=IN_LIST):
            by_budget.setdefault(standing.budget.pk, []).append(standing)
        for budget in self.result_list:
            budget.standings = by_budget.get(budget.pk, [])


@admin.register(Budget)
class BudgetAdmin(admin.ModelAdmin):
    """What may be used in a day or a month, and what of it is."""

    class Media:
        css = {"all": ["llmcore/admin.css"]}

    list_display = ["name", "now", "whose", "period", "enabled"]
    list_editable = ["enabled"]
    list_filter = ["period", "enabled", "configuration"]
    list_select_related = ["configuration", "user"]
    search_fields = ["name", "configuration__name"]
    search_help_text = gettext_lazy("Name, or a configuration's.")
    # For a site that keeps its users elsewhere, and for who may not look at them.
    raw_id_fields = ["user"]
    readonly_fields = ["now", "crossings"]
    fieldsets = [
        (None, {"fields": ["name", "enabled"]}),
        (
            gettext_lazy("What counts"),
            {
                "fields": ["configuration", "user", "each_user"],
                "description": gettext_lazy("Both blank: all calls of this site. Both given: only what fits both."),
            },
        ),
        (
            gettext_lazy("Limits"),
            {
                "fields": ["period", "max_requests", "max_tokens", "max_cost"],
                "description": gettext_lazy(
                    "Before each call the most that it may take is reserved; a call that doesn't fit is not made, and "
                    "its run ends. Blank is no limit."
                ),
            },
        ),
        (gettext_lazy("How it stands"), {"fields": ["now", "crossings"]}),
    ]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return StandingList

    def get_autocomplete_fields(self, request: HttpRequest) -> list[str]:
        users = self.admin_site._registry.get(get_user_model())
        searchable = users is not None and users.search_fields and users.has_view_permission(request)
        return ["user"] if searchable else []

    def get_fieldsets(self, request: HttpRequest, obj: Budget | None = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        return fieldsets if obj is not None else fieldsets[:-1]

    @admin.display(description=gettext_lazy("calls of"))
    def whose(self, obj: Budget) -> str:
        user = _("each user") if obj.each_user else obj.user
        return ", ".join(str(part) for part in (obj.configuration, user) if part) or _("the whole site")

    @admin.display(description=gettext_lazy("used"))
    def now(self, obj: Any) -> SafeString | str:
        found = obj.standings if hasattr(obj, "standings") else standings([obj], now=timezone.now(), most_users=ON_PAGE)
        if not found:
            return _("nothing is limited")
        bars = format_html_join("", "<li>{}</li>", ((bar(item),) for item in found))
        until = _("until %s") % moment(found[0].renews_at)
        if obj.each_user:
            until = _("%s; those who used most") % until
        return format_html('<ul class="budget-bars">{}<li class="help">{}</li></ul>', bars, until)

    @admin.display(description=gettext_lazy("came near"))
    def crossings(self, obj: Budget) -> SafeString | str:
        rows = BudgetCrossing.objects.filter(period__budget=obj).select_related("period__user")[:50]
        lines = [
            (
                f"{timezone.localtime(row.crossed_at):%Y-%m-%d %H:%M}",
                f"{row.percent} %",
                row.get_measure_display(),
                _(" for %s") % row.period.user if row.period.user else "",
                _(" by run %d") % row.run_id if row.run_id else "",
            )
            for row in rows
        ]
        if not lines:
            return _("70, 90 and 100 % are noted here when they are reached, once each in a period.")
        return format_html(
            '<ul class="budget-crossings">{}</ul>', format_html_join("", "<li>{}: {} of {}{}{}</li>", lines)
        )


def whom(standing: Standing) -> str:
    """Of whom it is told, of a budget for each user that somebody has used."""
    if standing.user is not None:
        return f"{standing.user}: "
    return _("no user: ") if standing.budget.each_user and (standing.used or standing.reserved) else ""


def bar(standing: Standing) -> SafeString:
    """How much is used, as a bar and in words."""
    measure = standing.measure
    held = _(", %s reserved") % spelled(measure, standing.reserved) if standing.reserved else ""
    return format_html(
        '<meter min="0" max="100" low="70" high="90" optimum="0" value="{}" aria-hidden="true"></meter> '
        "<span>{}{}</span>",
        min(standing.percent, 100),
        whom(standing),
        _("%(used)s of %(limit)s (%(percent)d %%)%(held)s")
        % {
            "used": figure(measure, standing.used),
            "limit": spelled(measure, standing.limit),
            "percent": standing.percent,
            "held": held,
        },
    )
