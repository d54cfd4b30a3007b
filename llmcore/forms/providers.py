"""The form of a provider: its key goes in and never comes out."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.admin.widgets import AdminTextInputWidget
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from llmcore.keys import (
    forget_key,
    is_for_other_host,
    problem_of_key,
    problem_of_variable,
    save_key,
    use_environment_key,
)
from llmcore.models import Provider
from llmcore.models.base_url import host_of
from llmcore.models.providers import LIMIT_OF_NONE
from llmcore.providers.registry import adapters


class ProviderForm(forms.ModelForm):
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
    api_key = forms.CharField(
        label=gettext_lazy("API key"),
        required=False,
        max_length=4_000,
        widget=forms.PasswordInput(attrs={"class": "vTextField", "autocomplete": "new-password"}),
        help_text=gettext_lazy("Stored encrypted and never shown again. Leave it blank to keep what is saved."),
    )
    remove_key = forms.BooleanField(label=gettext_lazy("Remove the saved key"), required=False)
    send_to_new_host = forms.BooleanField(
        label=gettext_lazy("Send the variable's key to a new address"),
        required=False,
        help_text=gettext_lazy("Asked for only when the base URL gets another host while the variable stays."),
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
        # What was saved, before the form writes on the instance.
        self.had_key = bool(self.instance.encrypted_key)
        self.had_variable = self.instance.key_env
        self.key_host = self.instance.key_host
        self._offer_adapters()
        if self.had_key:
            self.fields["api_key"].widget.attrs["placeholder"] = _("A key is saved for %s") % self.key_host

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        self._clean_base_url(data)
        self._clean_key(data)
        self._check_host(data)
        return data

    def save(self, commit: bool = True) -> Provider:
        data, provider = self.cleaned_data, self.instance
        if data["api_key"]:
            save_key(provider, data["api_key"])
        elif data["key_env"]:
            use_environment_key(provider, data["key_env"])
        elif data["remove_key"] or self.had_variable:
            forget_key(provider)
        saved: Provider = super().save(commit)
        return saved

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

    def _clean_key(self, data: dict[str, Any]) -> None:
        key, variable, remove = data.get("api_key"), data.get("key_env"), data.get("remove_key")
        if key and (problem := problem_of_key(key)):
            self.add_error("api_key", problem)
        if variable and (problem := problem_of_variable(variable)):
            self.add_error("key_env", problem)
        if key and variable:
            self.add_error("key_env", _("Give either a key or the name of a variable, not both: clear one of them."))
        elif key and remove:
            self.add_error("remove_key", _("A new key takes the saved one's place: untick this, or clear the new key."))
        elif variable and self.had_key and not remove:
            self.add_error(
                "key_env", _("A key is saved. To use the variable instead, tick “remove the saved key” too.")
            )

    def _check_host(self, data: dict[str, Any]) -> None:
        """A key, stored or in a variable, goes to another host only if it is entered or confirmed for it."""
        host = host_of(data.get("base_url") or "")
        if not host or host == self.key_host or data.get("api_key") or data.get("remove_key"):
            return
        hosts = {"old": self.key_host or _("no host"), "new": host}
        variable = data.get("key_env")
        if self.had_key and not variable:
            self.add_error(
                "api_key",
                _(
                    "The saved key is for %(old)s and is never sent to another host. Enter the key for %(new)s or tick "
                    "“remove the saved key”."
                )
                % hosts,
            )
        elif variable and variable == self.had_variable and not data.get("send_to_new_host"):
            self.add_error(
                "send_to_new_host",
                _("The key in the variable was meant for %(old)s. Tick this if it is to be sent to %(new)s.") % hosts,
            )


def key_state(provider: Provider) -> str:
    """Where the key of `provider` is, in a few words and without looking at it."""
    if provider.key_env:
        where = provider.key_env
    elif provider.encrypted_key:
        where = _("saved")
    else:
        return ""
    return _("%s, but for another host") % where if is_for_other_host(provider) else where
