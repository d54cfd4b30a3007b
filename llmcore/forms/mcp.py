"""The form of an MCP server."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.admin.widgets import AdminTextInputWidget
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from llmcore.forms.keys import KeyForm
from llmcore.mcp_commands import mcp_commands
from llmcore.models import MCPServer


class MCPServerForm(KeyForm):
    """A server as it is typed. At another address, or as another command, it is another server: its tools are listed
    and accepted anew."""

    command = forms.ChoiceField(
        label=gettext_lazy("Command"), required=False, help_text=MCPServer.command.field.help_text, choices=()
    )

    class Meta:
        model = MCPServer
        fields = [
            "slug",
            "name",
            "base_url",
            "command",
            "key_env",
            "allow_private_hosts",
            "believes_hints",
            "connect_timeout_s",
            "call_timeout_s",
            "enabled",
        ]
        widgets = {"base_url": AdminTextInputWidget(attrs={"inputmode": "url", "spellcheck": "false"})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.place = (self.instance.base_url, self.instance.command)
        if "command" in self.fields:
            self.fields["command"].choices = command_choices(self.instance.command)  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        data = super().clean()
        if data.get("command") and (data.get("api_key") or data.get("key_env")):
            self.add_error(
                "command", _("A command gets no key from here: the setting LLM_MCP_COMMANDS has its environment.")
            )
        else:
            self.check_key(data)
        return data

    def save(self, commit: bool = True) -> Any:
        if self.place != (self.instance.base_url, self.instance.command):
            self.instance.forget_tools()
        return super().save(commit)


def command_choices(stored: str) -> list[tuple[str, str]]:
    """The commands of this site with their words, and the stored name where the settings don't have it (any more)."""
    known = [(name, f"{name} ({' '.join(command.argv)[:120]})") for name, command in mcp_commands().items()]
    unknown = [] if not stored or stored in dict(known) else [(stored, _("%s (not known to this site)") % stored)]
    return [("", _("none: it has an address")), *known, *unknown]
