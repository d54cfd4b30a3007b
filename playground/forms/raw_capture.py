"""The tick that keeps raw requests and responses, in every form that starts a run."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from playground.numbers import plural
from playground.privacy import raw_capture_refused
from playground.retention import Retention


def capture_raw_field() -> forms.BooleanField:
    return forms.BooleanField(label=_("Capture raw requests and responses"), required=False)


class RawCapture:
    """Of a form with the field `capture_raw`: refused where the site keeps none, with what becomes of it elsewhere."""

    cleaned_data: dict[str, Any]

    def clean_capture_raw(self) -> bool:
        wanted = bool(self.cleaned_data["capture_raw"])
        if wanted and (refusal := raw_capture_refused()):
            raise forms.ValidationError(refusal, code="refused")
        return wanted

    @property
    def raw_refused(self) -> str:
        return raw_capture_refused()

    @property
    def raw_kept(self) -> str:
        days = Retention.of_site().raw
        kept = _("kept as long as the run") if days is None else _("kept %(days)s") % {"days": plural(days, "day")}
        return f"{kept}, {_('secrets masked')}"
