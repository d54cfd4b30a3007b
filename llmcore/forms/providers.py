"""The form of a provider."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.admin.widgets import AdminTextInputWidget
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from llmcore.forms.keys import KeyForm
from llmcore.models import Provider
from llmcore.models.providers import LIMIT_OF_NONE
from llmcore.providers.registry import adapters


class ProviderForm(KeyForm):
    """A provider as it is typed: an empty key keeps the saved one."""

    adapter = forms.ChoiceField(
        label=gettext_lazy("Wire format"), help_text=Provider.adapter.field.help_text, choices=()
    )
    base_url = forms.CharField(
        label=gettext_lazy("Base URL"),
        max_length=200,
        required=False,
        widget=AdminTextInputWidget(attrs={"inputmode": "url", "spellcheck": "false"}),
    )

    class Meta:
        model = Provider
        fields = [
            "slug",
            "name",
            "adapter",
            "base_url",
            "key_env",
            "allow_private_hosts",
            "connect_timeout_s",
            "read_timeout_s",
            "total_timeout_s",
            "max_attempts",
            "max_calls_in_flight",
            "enabled",
        ]
        error_messages = {"max_calls_in_flight": {"min_value": LIMIT_OF_NONE}}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._offer_adapters()

    def clean(self) -> dict[str, Any]:
        data = super().clean()
        self._clean_base_url(data)
        self.check_key(data)
        return data

    def _offer_adapters(self) -> None:
        known = adapters()
        choices = [(name, adapter.label) for name, adapter in known.items()]
        stored = self.instance.adapter
        if stored and stored not in known:
            choices.insert(0, (stored, _("%s (not known to this site)") % stored))
        field = self.fields["adapter"]
        field.choices = choices  # type: ignore[attr-defined]
        usual = "; ".join(f"{a.label}: {a.default_base_url}" for a in known.values() if a.default_base_url)
        self.fields["base_url"].help_text = (
            _("Where the API begins. The key is sent to this host only. Leave it blank for the usual address (%s).")
            % usual
        )

    def _clean_base_url(self, data: dict[str, Any]) -> None:
        adapter = adapters().get(data.get("adapter", ""))
        if data.get("adapter") and adapter is None:
            self.add_error("adapter", _("This site doesn't know this wire format (any more): choose another one."))
        if "base_url" in data and not data["base_url"]:
            data["base_url"] = adapter.default_base_url if adapter else ""
            if not data["base_url"]:
                self.add_error("base_url", _("This wire format has no usual address: enter the server's base URL."))
