"""Providers and their models in the admin."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.contrib import admin, messages
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from llmcore.admin.keys import KeyedAdmin, key_fields
from llmcore.context.estimator import Estimator
from llmcore.enrollment.connection import Connection, connect
from llmcore.forms.price_tiers import LanguageModelForm
from llmcore.forms.providers import ProviderForm
from llmcore.keys import has_key
from llmcore.models import LanguageModel, Provider
from llmcore.providers.registry import adapters
from llmcore.store import model_value
from llmcore.usage import Prices


def wire_format_label(name: str) -> str:
    adapter = adapters().get(name)
    return adapter.label if adapter else _("%s (not known to this site)") % name


class WireFormatFilter(admin.SimpleListFilter):
    """Providers of a wire format, by the name that the form has for it."""

    title = gettext_lazy("wire format")
    parameter_name = "adapter"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        used = Provider.objects.order_by("adapter").values_list("adapter", flat=True).distinct()
        return [(name, wire_format_label(name)) for name in used]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Provider]) -> QuerySet[Provider]:
        return queryset.filter(adapter=self.value()) if self.value() else queryset


@admin.register(Provider)
class ProviderAdmin(KeyedAdmin):
    """Providers."""

    form = ProviderForm
    list_display = ["name", "wire_format", "base_url", "key", "models_count", "enabled"]
    list_filter = ["enabled", WireFormatFilter]
    search_fields = ["name", "slug", "base_url"]
    prepopulated_fields = {"slug": ["name"]}
    actions = ["test_connection"]

    def get_fieldsets(self, request: HttpRequest, obj: Provider | None = None) -> Any:
        may_edit = self.has_change_permission(request, obj) if obj else True
        return [
            (
                None,
                {"fields": ["name", "slug", "adapter", "base_url", "api_version", "allow_private_hosts", "enabled"]},
            ),
            (gettext_lazy("Key"), {"fields": key_fields(obj, may_edit)}),
            (
                gettext_lazy("Deadlines and attempts"),
                {"fields": [("connect_timeout_s", "read_timeout_s", "total_timeout_s"), "max_attempts"]},
            ),
            (gettext_lazy("Limits"), {"fields": ["max_calls_in_flight"]}),
        ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Provider]:
        rows: QuerySet[Provider] = super().get_queryset(request)
        return rows.annotate(models_count=Count("models"))

    @admin.action(description=gettext_lazy("Test connection"), permissions=["change"])
    def test_connection(self, request: HttpRequest, rows: QuerySet[Provider]) -> None:
        """Ask each for its list of models: that calls no model and costs nothing."""
        for row in rows:
            connection = connect(row)
            if connection.problem:
                messages.error(request, f"{row.name}: {connection.problem}")
                continue
            count = len(connection.models)
            text = ngettext(
                "%(name)s answers and lists %(count)d model.", "%(name)s answers and lists %(count)d models.", count
            )
            messages.success(request, text % {"name": row.name, "count": count})
            if missing := sorted(missing_models(row, connection)):
                text = _("%(name)s does not list %(models)s, which is entered here: correct the name at the model.")
                messages.warning(request, text % {"name": row.name, "models": ", ".join(missing)})

    def problem_with_key(self, remote: Any) -> str:
        if problem := super().problem_with_key(remote):
            return problem
        adapter = adapters().get(remote.adapter)
        if not has_key(remote) and adapter and adapter.needs_key:
            return str(_("%s has no key yet, and its wire format asks for one: enter it here.") % remote)
        return ""

    @admin.display(description=gettext_lazy("wire format"), ordering="adapter")
    def wire_format(self, obj: Provider) -> str:
        return wire_format_label(obj.adapter)

    @admin.display(description=gettext_lazy("models"), ordering="models_count")
    def models_count(self, obj: Any) -> int:
        count: int = obj.models_count
        return count


def missing_models(provider: Provider, connection: Connection) -> set[str]:
    """The names of models entered here that the provider doesn't list, where it lists any."""
    listed = {model.name for model in connection.models}
    if not listed or provider.adapter == "azure_openai":
        # Azure lists models, but requests name deployments.
        return set()
    return {name for name in provider.models.values_list("name", flat=True) if name not in listed}


@admin.register(LanguageModel)
class LanguageModelAdmin(admin.ModelAdmin):
    """The models of the providers."""

    class Media:
        css = {"all": ["llmcore/admin.css"]}

    form = LanguageModelForm
    list_display = ["name", "label", "provider", "context_window", "max_output_tokens", "shown_prices", "enabled"]
    list_filter = ["enabled", "provider"]
    list_select_related = ["provider"]
    search_fields = ["name", "label", "provider__name"]
    readonly_fields = ["shipped", "counting"]
    actions = ["take_shipped_prices"]
    fieldsets = [
        (None, {"fields": ["provider", "name", "label", "enabled"]}),
        (gettext_lazy("Size"), {"fields": [("context_window", "max_output_tokens"), "counting"]}),
        (
            gettext_lazy("What it can do"),
            {
                "fields": [
                    ("supports_tools", "tools_as_json"),
                    "supports_tool_choice",
                    "supports_streaming",
                    "supports_temperature",
                    ("supports_thinking", "thinking_control"),
                    "supports_images",
                    "supports_structured_output",
                    "inline_think",
                ],
                "description": gettext_lazy("Only what is ticked is asked of the model."),
            },
        ),
        (
            gettext_lazy("Prices"),
            {
                "fields": [
                    "input_price",
                    "output_price",
                    ("cache_read_price", "cache_creation_price"),
                    "price_tiers",
                    "shipped",
                ],
                "description": gettext_lazy("Cached tokens without a price of their own cost as much as input."),
            },
        ),
    ]

    @admin.display(description=gettext_lazy("input / output, $ per million"), empty_value="–")
    def shown_prices(self, obj: LanguageModel) -> str:
        if obj.input_price is None or obj.output_price is None:
            return ""
        more = _("; more for long prompts") if obj.price_tiers else ""
        return f"{dollars(obj.input_price)} / {dollars(obj.output_price)}{more}"

    @admin.display(description=gettext_lazy("tokens before a run"))
    def counting(self, obj: LanguageModel) -> str:
        return Estimator.of(model_value(obj)).how if obj.pk else ""

    @admin.display(description=gettext_lazy("shipped prices"))
    def shipped(self, obj: LanguageModel) -> str:
        """What this version knows of the price, since when and where from, and whether it is the one above."""
        if obj.pk is None:
            return _("Shown here when the model is saved.")
        known = obj.shipped_prices
        if known is None:
            return _("None for this model at this address: enter them where its provider tells them.")
        parts = [known.note] if known.note else []
        if known.prices.input is not None:
            same = known.prices == obj.prices
            parts.insert(
                0,
                _("These ones.") if same else _("Dollars per million: %s. Your own ones count.") % listed(known.prices),
            )
        return format_html(
            '{} {} <a href="{}">{}</a>',
            " ".join(map(str, parts)),
            _("As of %s, from") % date_format(known.as_of, "j F Y"),
            known.source,
            known.source,
        )

    @admin.action(description=gettext_lazy("Take the shipped prices"), permissions=["change"])
    def take_shipped_prices(self, request: HttpRequest, rows: QuerySet[LanguageModel]) -> None:
        changed, unknown = [], []
        for row in rows.select_related("provider"):
            known = row.shipped_prices
            if known is None or known.prices.input is None:
                unknown.append(str(row))
            elif known.prices != row.prices:
                row.prices = known.prices
                row.save()
                self.log_change(request, row, [{"changed": {"fields": [str(gettext_lazy("prices"))]}}])
                changed.append(str(row))
        if changed:
            messages.success(request, _("Now at the shipped prices: %s.") % ", ".join(changed))
        if unknown:
            messages.warning(request, _("No prices are shipped for %s.") % ", ".join(unknown))
        if not changed and not unknown:
            messages.info(request, _("They have the shipped prices already."))


def listed(prices: Prices) -> str:
    """Prices in words, those that there are, and those of long prompts."""
    tiers = (
        _("with more than %(count)s tokens of prompt %(prices)s")
        % {"count": f"{tier.above:,}", "prices": listed(tier.prices) or _("unknown")}
        for tier in prices.tiers
    )
    named = (
        (_("input"), prices.input),
        (_("output"), prices.output),
        (_("cached read"), prices.cache_read),
        (_("cache write"), prices.cache_creation),
    )
    own = ", ".join(f"{name} {dollars(price)}" for name, price in named if price is not None)
    return "; ".join(filter(None, (own, *tiers)))


def dollars(price: Decimal) -> str:
    """Without the zeros that say nothing; never in powers of ten."""
    return f"{price.normalize():f}"
