"""The filters of the list of runs, as they stand in its address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator
from django.utils.formats import date_format
from django.utils.translation import gettext_lazy as _

from llmcore.runs.outcome import EndReason, RunStatus
from playground.filters import MINE, Made, Period, RunFilters
from playground.numbers import money
from playground.reading.ends import END_LOOKS, STATUS_LOOKS
from playground.search.query import MAX_CHARS
from playground.services.filter_choices import FilterChoices, name_of_source

PERIODS = [
    (Period.TODAY, _("Today")),
    (Period.DAY, _("Last 24 hours")),
    (Period.WEEK, _("Last 7 days")),
    (Period.MONTH, _("Last 30 days")),
]
NAME_CHARS = 200


class KnownOrNotField(forms.CharField):
    """One of the names that occur, or any other: a name that no run has (any more) finds none, rather than all."""

    def __init__(self, *, label: Any) -> None:
        super().__init__(label=label, required=False, max_length=NAME_CHARS, widget=forms.Select)
        self.choices: list[tuple[str, Any]] = []

    def widget_attrs(self, widget: forms.Widget) -> dict[str, Any]:
        """A list of choices has no length to bound."""
        return {}


class DayField(forms.DateField):
    """A day that any database and time zone can stand."""

    def __init__(self, *, label: Any) -> None:
        bounds = [MinValueValidator(date(2000, 1, 1)), MaxValueValidator(date(2199, 12, 31))]
        widget = forms.DateInput(attrs={"type": "date", "min": bounds[0].limit_value, "max": bounds[1].limit_value})
        super().__init__(label=label, required=False, input_formats=["%Y-%m-%d"], validators=bounds, widget=widget)


class CostField(forms.DecimalField):
    """US dollars, as exact as they are stored."""

    def __init__(self, *, label: Any) -> None:
        # The step is the field's to set: with one, a browser refuses what lies between.
        widget = forms.NumberInput(attrs={"step": "any", "inputmode": "decimal"})
        super().__init__(label=label, required=False, min_value=0, max_digits=20, decimal_places=12, widget=widget)


class MadeField(forms.Field):
    """A skill, snippet or configuration, or a version of it, which links from its pages name."""

    def __init__(self) -> None:
        super().__init__(label=_("Made with"), required=False, widget=forms.HiddenInput)

    def to_python(self, value: Any) -> Made | None:
        if not value:
            return None
        try:
            return Made.read(str(value))
        except ValueError as error:
            raise forms.ValidationError(_("There is no such source."), code="no_source") from error


@dataclass(frozen=True, slots=True)
class Applied:
    """A filter in force, in words. `names` are the fields of `RunFilters` that it stands for."""

    label: str
    value: str
    names: tuple[str, ...]


class RunFilterForm(forms.Form):
    """What the list of runs is narrowed to. What can't be understood narrows nothing."""

    q = forms.CharField(label=_("Search"), required=False)
    status = forms.ChoiceField(label=_("Status"), required=False)
    outcome = forms.ChoiceField(label=_("Outcome"), required=False)
    configuration = forms.ChoiceField(label=_("Configuration"), required=False)
    model = KnownOrNotField(label=_("Model"))
    tool = KnownOrNotField(label=_("Tool called"))
    who = forms.ChoiceField(label=_("Who"), required=False)
    when = forms.ChoiceField(label=_("When"), required=False, choices=[("", _("Any time")), *PERIODS])
    since = DayField(label=_("From"))
    until = DayField(label=_("To"))
    tag = KnownOrNotField(label=_("Tag"))
    cost_from = CostField(label=_("Cost from"))
    cost_to = CostField(label=_("Cost to"))
    failed = forms.BooleanField(label=_("Something failed"), required=False)
    made_with = MadeField()

    def __init__(self, *args: Any, choices: FilterChoices, sees_all: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        self._choose("status", "", ((s.value, STATUS_LOOKS[s].word) for s in RunStatus))
        self._choose("outcome", _("Any outcome"), ((r.value, END_LOOKS[r].word) for r in EndReason))
        self._choose("configuration", _("All configurations"), choices.configurations)
        self._choose("model", _("All models"), ((name, name) for name in choices.models))
        self._choose("tool", _("Any tool"), ((name, name) for name in choices.tools))
        self._choose("tag", _("Any tag"), ((name, name) for name in choices.tags))
        self._choose("who", _("Everybody"), [(MINE, _("My runs")), *choices.users])
        if not sees_all:
            del self.fields["who"]

    def _choose(self, name: str, everything: Any, pairs: Iterable[tuple[str, Any]]) -> None:
        """The choices of a field; one that is asked for and doesn't occur is among them."""
        field: Any = self.fields[name]
        choices = [("", everything), *pairs]
        asked = str(self.data.get(name, ""))[:NAME_CHARS]
        if isinstance(field, KnownOrNotField) and asked not in dict(choices):
            choices.append((asked, asked))
        field.choices = field.widget.choices = choices

    def count_outcomes(self, counts: Mapping[EndReason, int]) -> None:
        """Offer the outcomes that occur, and the chosen one, each with its number of runs."""
        field: Any = self.fields["outcome"]
        field.choices = [
            (value, f"{word} ({counts.get(value, 0)})" if value else word)
            for value, word in field.choices
            if not value or counts.get(value) or value == self.data.get("outcome")
        ]

    def filters(self) -> RunFilters:
        self.full_clean()
        data = self.cleaned_data
        return RunFilters(
            search=data.get("q", "")[:MAX_CHARS],
            status=RunStatus(data["status"]) if data.get("status") else None,
            outcome=EndReason(data["outcome"]) if data.get("outcome") else None,
            configuration=data.get("configuration", ""),
            model=data.get("model", ""),
            tool=data.get("tool", ""),
            who=data.get("who", ""),
            period=Period(data["when"]) if data.get("when") else None,
            since=data.get("since"),
            until=data.get("until"),
            tag=data.get("tag", "").casefold(),
            cost_from=data.get("cost_from"),
            cost_to=data.get("cost_to"),
            failed=data.get("failed", False),
            made_with=data.get("made_with"),
        )

    def applied(self, filters: RunFilters) -> list[Applied]:
        """The filters in force, in words."""
        applied = []
        if filters.search:
            applied.append(Applied(str(self.fields["q"].label), f"“{filters.search}”", ("search",)))
        for name in ("status", "outcome", "configuration", "model", "tool", "who", "tag"):
            if value := getattr(filters, name):
                field: Any = self.fields[name]
                applied.append(Applied(str(field.label), str(dict(field.choices)[value]), (name,)))
        if when := period_in_words(filters):
            applied.append(Applied(str(self.fields["when"].label), when, ("period", "since", "until")))
        if cost := cost_in_words(filters):
            applied.append(Applied(str(_("Cost")), cost, ("cost_from", "cost_to")))
        if filters.failed:
            applied.append(Applied("", str(self.fields["failed"].label), ("failed",)))
        if made := filters.made_with:
            applied.append(Applied(str(self.fields["made_with"].label), name_of_source(made), ("made_with",)))
        return applied


def period_in_words(filters: RunFilters) -> str:
    """ "Last 7 days", "1 Nov 2026 – 30 Nov 2026"; empty for any time."""
    since = filters.since and date_format(filters.since, "j M Y")
    until = filters.until and date_format(filters.until, "j M Y")
    if since and until:
        return since if since == until else f"{since} – {until}"
    if since:
        return f"since {since}"
    if until:
        return f"until {until}"
    return str(dict(PERIODS)[filters.period]) if filters.period else ""


def within_period(filters: RunFilters) -> str:
    """The same as the end of a sentence: "in the last 7 days"."""
    words = period_in_words(filters)
    if filters.since or filters.until:
        return f"on {words}" if filters.since == filters.until else words if "–" not in words else f"from {words}"
    return words.lower() if filters.period in (None, Period.TODAY) else f"in the {words.lower()}"


def cost_in_words(filters: RunFilters) -> str:
    least, most = money(filters.cost_from), money(filters.cost_to)
    if least and most:
        return f"{least} – {most}"
    return f"from {least}" if least else f"up to {most}" if most else ""


class LiveRowsForm(forms.Form):
    """Which rows of a table are to be shown anew, and on which scale its bars are."""

    ids = forms.CharField(max_length=1_000)
    tokens = forms.FloatField(min_value=1)
    ms = forms.FloatField(min_value=1)
    chips = forms.BooleanField(required=False)

    def clean_ids(self) -> list[int]:
        return ids_of(self.cleaned_data["ids"].split(","))


def ids_of(texts: Iterable[str]) -> list[int]:
    texts = list(texts)
    if not all(text.isascii() and text.isdecimal() and len(text) < 19 for text in texts):
        raise forms.ValidationError(_("These are no ids of runs."), code="no_ids")
    return [int(text) for text in texts]


def query_of(filters: RunFilters, **more: str | float | None) -> str:
    """The filters, and whatever else, as a query string: "" or "?…"."""
    parts: dict[str, Any] = {
        "q": filters.search,
        "status": filters.status,
        "outcome": filters.outcome,
        "configuration": filters.configuration,
        "model": filters.model,
        "tool": filters.tool,
        "who": filters.who,
        "when": filters.period,
        "since": filters.since,
        "until": filters.until,
        "tag": filters.tag,
        "cost_from": plain(filters.cost_from),
        "cost_to": plain(filters.cost_to),
        "failed": "on" if filters.failed else "",
        "made_with": filters.made_with and str(filters.made_with),
        **more,
    }
    query = urlencode({name: value for name, value in parts.items() if value not in (None, "")})
    return f"?{query}" if query else ""


def plain(amount: Decimal | None) -> str:
    """Without an exponent, as a number field takes it."""
    return "" if amount is None else f"{amount:f}"
