"""The filters of the list of runs, as they stand in its address."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.utils.translation import gettext_lazy as _

from llmcore.models import Configuration
from llmcore.runs.outcome import RunStatus
from playground.reading.ends import STATUS_LOOKS
from playground.services.list_runs import RunFilters


class RunFilterForm(forms.Form):
    """What the list of runs is narrowed to. What isn't a choice (any more) narrows nothing."""

    status = forms.ChoiceField(label=_("Status"), required=False)
    configuration = forms.ChoiceField(label=_("Configuration"), required=False)
    who = forms.ChoiceField(label=_("Who"), required=False, choices=[("", _("Everybody")), ("mine", _("My runs"))])

    def __init__(self, *args: Any, sees_all: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["status"].choices = [("", ""), *((s.value, STATUS_LOOKS[s].word) for s in RunStatus)]  # type: ignore[attr-defined]
        self.fields["configuration"].choices = [  # type: ignore[attr-defined]
            ("", _("All configurations")),
            *Configuration.objects.order_by("name").values_list("slug", "name"),
        ]
        if not sees_all:
            del self.fields["who"]

    def filters(self) -> RunFilters:
        self.full_clean()
        data = self.cleaned_data
        return RunFilters(
            status=RunStatus(data["status"]) if data.get("status") else None,
            configuration=data.get("configuration", ""),
            mine=data.get("who") == "mine",
        )

    def described(self) -> str:
        """The filters in words, once they are known."""
        words = [
            f"{self.fields[name].label} {dict(self.fields[name].choices)[value]}"  # type: ignore[attr-defined]
            for name in ("status", "configuration", "who")
            if (value := self.cleaned_data.get(name))
        ]
        return ", ".join(words)


class LiveRowsForm(forms.Form):
    """Which rows of a table are to be shown anew, and on which scale its bars are."""

    ids = forms.CharField(max_length=1_000)
    tokens = forms.FloatField(min_value=1)
    ms = forms.FloatField(min_value=1)
    chips = forms.BooleanField(required=False)

    def clean_ids(self) -> list[int]:
        ids = self.cleaned_data["ids"].split(",")
        if not all(id.isascii() and id.isdecimal() and len(id) < 19 for id in ids):
            raise forms.ValidationError(_("These are no ids of runs."), code="no_ids")
        return [int(id) for id in ids]


def query_of(filters: RunFilters, **more: str | float | None) -> str:
    """The filters, and whatever else, as a query string: "" or "?…"."""
    parts = {
        "status": filters.status,
        "configuration": filters.configuration,
        "who": "mine" if filters.mine else "",
        **more,
    }
    query = urlencode({name: value for name, value in parts.items() if value not in (None, "")})
    return f"?{query}" if query else ""
