"""The form of the simulator: a call as a model would make it, and for whom."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.contrib.auth import get_user_model
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from llmcore.models import Configuration
from llmcore.tools.base import Tool


class SimulatedCallForm(forms.Form):
    """Which call to judge by the rules."""

    tool = forms.ChoiceField(label=gettext_lazy("Tool"))
    arguments = forms.CharField(
        label=gettext_lazy("Arguments (JSON)"),
        required=False,
        max_length=20_000,
        initial="{}",
        widget=forms.Textarea(attrs={"rows": 6, "cols": 80, "spellcheck": "false"}),
    )
    configuration = forms.ModelChoiceField(
        label=gettext_lazy("Configuration"),
        queryset=Configuration.objects.select_related("model__provider"),
        required=False,
        empty_label=gettext_lazy("none"),
        help_text=gettext_lazy("Its workspace is where file tools and commands would work."),
    )
    user = forms.ModelChoiceField(
        label=gettext_lazy("Run of"),
        queryset=get_user_model()._default_manager.none(),
        required=False,
        empty_label=gettext_lazy("nobody"),
        help_text=gettext_lazy("Whose run the call would belong to."),
    )

    def __init__(self, *args: Any, known: dict[str, Tool], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices: Any = self.fields["tool"]
        choices.choices = [(name, name) for name in sorted(known)]
        people: Any = self.fields["user"]
        people.queryset = get_user_model()._default_manager.filter(is_active=True).order_by("pk")

    def clean_arguments(self) -> dict[str, Any]:
        text = self.cleaned_data["arguments"].strip() or "{}"
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError(_("This is no JSON: %s") % error) from error
        if not isinstance(value, dict):
            raise forms.ValidationError(_("Arguments are a JSON object, for example {}."))
        return value
