"""The prices of long prompts as rows of a table, for the form of a model."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from llmcore.models import LanguageModel
from llmcore.usage import PRICE_NAMES, Prices, PriceTier

ABOVE = "above"
COLUMNS = {
    ABOVE: gettext_lazy("prompt over, tokens"),
    "input": gettext_lazy("input"),
    "output": gettext_lazy("output"),
    "cache_read": gettext_lazy("cached read"),
    "cache_creation": gettext_lazy("cache write"),
}
# Empty rows for new tiers; no provider has more than two.
SPARE_ROWS = 2
MOST_ROWS = 20
HIGHEST_PRICE = 1_000_000
# As many as the other prices have.
DECIMALS = 6

Row = Mapping[str, str]


class PriceTiersWidget(forms.Widget):
    """A row of fields for each tier, and empty ones. Without a value a row is no tier."""

    template_name = "admin/llmcore/price_tiers.html"
    # For several fields no single label can stand.
    use_fieldset = True

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        # The site's templates, not those of Django's forms alone.
        return render_to_string(self.template_name, self.get_context(name, value, attrs))

    def format_value(self, value: Any) -> list[Row]:
        return list(value or ())

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        context = super().get_context(name, value, attrs)
        rows = [*self.format_value(value), *({} for _ in range(SPARE_ROWS))]
        context["columns"] = COLUMNS.values()
        context["rows"] = [
            [
                {"name": f"{name}-{number}-{column}", "label": label, "value": row.get(column, ""), "column": column}
                for column, label in COLUMNS.items()
            ]
            for number, row in enumerate(rows, start=1)
        ]
        return context

    def value_from_datadict(self, data: Mapping[str, Any], files: Any, name: str) -> list[Row]:
        rows = (
            {column: str(data.get(f"{name}-{number}-{column}") or "").strip() for column in COLUMNS}
            for number in range(1, MOST_ROWS + 1)
        )
        return [row for row in rows if any(row.values())]

    def value_omitted_from_data(self, data: Mapping[str, Any], files: Any, name: str) -> bool:
        return f"{name}-1-{ABOVE}" not in data


class PriceTiersField(forms.Field):
    """The tiers of `Prices`, as a model stores them; the shortest prompt first."""

    widget = PriceTiersWidget

    def to_python(self, value: Any) -> list[dict[str, Any]]:
        tiers = [_tier(number, row) for number, row in enumerate(value or (), start=1)]
        lengths = [tier.above for tier in tiers]
        if len(set(lengths)) < len(lengths):
            raise ValidationError(_("Two rows are for the same length of prompt."), code="twice")
        return [tier.to_json() for tier in sorted(tiers, key=lambda tier: tier.above)]

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return self.to_python(initial) != self.to_python(data)
        except ValidationError:
            return True


def _tier(number: int, row: Mapping[str, Any]) -> PriceTier:
    above = str(row.get(ABOVE, ""))
    if not above.isascii() or not above.isdecimal() or not 0 < int(above[:12]) < 2**31:
        raise _wrong(number, _("enter from how many tokens of prompt on, as a whole number."))
    prices = Prices.from_json({name: _price(number, str(row.get(name) or ""), COLUMNS[name]) for name in PRICE_NAMES})
    tier = PriceTier(above=int(above), prices=prices)
    if not prices.known and prices != Prices():
        raise _wrong(number, _("a cost needs the input and output prices. Enter both, or none if they are unknown."))
    return tier


def _price(number: int, text: str, label: Any) -> Decimal | None:
    if not text:
        return None
    try:
        price = Decimal(text)
    except InvalidOperation:
        price = Decimal(-1)
    exponent = price.as_tuple().exponent
    if not price.is_finite() or not 0 <= price < HIGHEST_PRICE or not isinstance(exponent, int) or -exponent > DECIMALS:
        raise _wrong(number, _("%s is no price in dollars, with at most six decimals.") % label)
    return price


def _wrong(number: int, what: str) -> ValidationError:
    return ValidationError(_("Row %(number)d: %(what)s"), code="invalid", params={"number": number, "what": what})


class LanguageModelForm(forms.ModelForm):
    """A model as it is typed."""

    price_tiers = PriceTiersField(
        label=gettext_lazy("Prices of long prompts"),
        required=False,
        help_text=gettext_lazy(
            "Where prompts of more than so many tokens have other prices: they hold for the whole call. A row without "
            "prices makes such calls unpriced; an empty row is left out."
        ),
    )

    class Meta:
        model = LanguageModel
        fields = ("price_tiers",)
