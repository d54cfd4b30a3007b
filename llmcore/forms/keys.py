"""The part of a form that is about a key: it goes in and never comes out."""

from __future__ import annotations

from typing import Any

from django import forms
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
from llmcore.models.base_url import host_of
from llmcore.models.remote import Remote


class KeyForm(forms.ModelForm):
    """A service with its key as they are typed: an empty key keeps the saved one."""

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

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # What was saved, before the form writes on the instance.
        self.had_key = bool(self.instance.encrypted_key)
        self.had_variable = self.instance.key_env
        self.key_host = self.instance.key_host
        if self.had_key:
            self.fields["api_key"].widget.attrs["placeholder"] = _("A key is saved for %s") % self.key_host

    def clean(self) -> dict[str, Any]:
        return super().clean() or self.cleaned_data

    def save(self, commit: bool = True) -> Any:
        data, remote = self.cleaned_data, self.instance
        if data["api_key"]:
            save_key(remote, data["api_key"])
        elif data["key_env"]:
            use_environment_key(remote, data["key_env"])
        elif data["remove_key"] or self.had_variable:
            forget_key(remote)
        return super().save(commit)

    def check_key(self, data: dict[str, Any]) -> None:
        """Say what is wrong with what was typed about the key; called once the address is known."""
        self._clean_key(data)
        self._check_host(data)

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


def key_state(remote: Remote) -> str:
    """Where the key of `remote` is, in a few words and without looking at it."""
    if remote.key_env:
        where = remote.key_env
    elif remote.encrypted_key:
        where = _("saved")
    else:
        return ""
    return _("%s, but for another host") % where if is_for_other_host(remote) else where
