"""The forms of tools: switches for the site, and presets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from llmcore.forms.fields import EFFECTS, TOOL_LIST, tool_choices
from llmcore.mcp_servers import every_tool
from llmcore.models import ToolPreset
from llmcore.tools.base import Tool


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolRow:
    """One tool on the page; `tool` is None where the site knows it no more."""

    name: str
    switch: forms.BoundField
    tool: Tool | None

    @property
    def effect(self) -> str:
        return str(EFFECTS[self.tool.effect]) if self.tool else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupRow:
    """A group with its tools on the page; `switch` is None for the tools that the site knows no more."""

    name: str
    switch: forms.BoundField | None
    tools: list[ToolRow]


class ToolSwitchesForm(forms.Form):
    """A tick for each tool and each group; what wasn't on the page that was sent stays as it is.

    `tools` and `groups` map the stored names to whether they are on; known ones without a row are on.
    """

    def __init__(
        self,
        *args: Any,
        known: Mapping[str, Tool],
        tools: Mapping[str, bool],
        groups: Mapping[str, bool],
        editable_groups: bool = True,
        editable_tools: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.known = known
        self.states = {
            "tool": dict.fromkeys(sorted(known), True) | dict(tools),
            "group": dict.fromkeys(sorted({tool.group for tool in known.values()}), True) | dict(groups),
        }
        for kind, editable in (("group", editable_groups), ("tool", editable_tools)):
            for name, enabled in self.states[kind].items():
                self.fields[f"{kind}:{name}"] = forms.BooleanField(
                    label=name, required=False, initial=enabled, disabled=not editable
                )
                # Tells a box that was unticked from one that wasn't there.
                self.fields[f"shown:{kind}:{name}"] = forms.BooleanField(
                    required=False, initial=True, widget=forms.HiddenInput
                )

    def changes(self, kind: str) -> dict[str, bool]:
        """Names of `kind` ("tool" or "group") whose switch was moved, with the state they get."""
        return {
            name: self.cleaned_data[f"{kind}:{name}"]
            for name, enabled in self.states[kind].items()
            if self.cleaned_data[f"shown:{kind}:{name}"] and self.cleaned_data[f"{kind}:{name}"] != enabled
        }

    def rows(self) -> list[GroupRow]:
        """The page: the groups with their tools, what the site knows no more at its end."""
        rows = [
            GroupRow(name=group, switch=self[f"group:{group}"], tools=self._tool_rows(self._tools_of(group)))
            for group in self.states["group"]
        ]
        unknown = [name for name in self.states["tool"] if name not in self.known]
        if unknown:
            rows.append(GroupRow(name="", switch=None, tools=self._tool_rows(unknown)))
        return rows

    def shown(self) -> list[forms.BoundField]:
        return self.hidden_fields()

    def _tools_of(self, group: str) -> list[str]:
        return [name for name in self.states["tool"] if name in self.known and self.known[name].group == group]

    def _tool_rows(self, names: Iterable[str]) -> list[ToolRow]:
        return [ToolRow(name=name, switch=self[f"tool:{name}"], tool=self.known.get(name)) for name in names]


class ToolPresetForm(forms.ModelForm):
    """A preset as it is ticked."""

    tools = forms.MultipleChoiceField(
        label=gettext_lazy("Tools"),
        widget=forms.CheckboxSelectMultiple(attrs=TOOL_LIST),
        help_text=gettext_lazy("Of these a run is offered what its configuration's groups have and its user may use."),
    )

    class Meta:
        model = ToolPreset
        fields = ["name", "slug", "description", "tools"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "tools" in self.fields:
            self.fields["tools"].choices = tool_choices(every_tool(), self.instance.tools)  # type: ignore[attr-defined]

    def clean_tools(self) -> list[str]:
        return list(self.cleaned_data["tools"])
