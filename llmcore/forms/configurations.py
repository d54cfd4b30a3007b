"""The form of a configuration, and of the places of its skills and snippets."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.admin.widgets import AdminTextareaWidget
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from llmcore.forms.fields import (
    FILLED,
    TOOL_LIST,
    NameListField,
    PromptField,
    ToolListField,
    group_choices,
    tool_choices,
)
from llmcore.mcp_servers import every_tool
from llmcore.models import Configuration, LanguageModel
from llmcore.workspaces import workspaces

# Behind every numbered place, so that a row without a number is the last.
LAST = 32_000


class ModelChoiceField(forms.ModelChoiceField):
    """A model with its provider's name, since several may serve one of the same name."""

    def label_from_instance(self, obj: LanguageModel) -> str:
        label = f"{obj} ({obj.provider})"
        return label if obj.enabled and obj.provider.enabled else _("%s, disabled") % label


class ConfigurationForm(forms.ModelForm):
    """A configuration as it is typed."""

    system_prompt = PromptField(label=gettext_lazy("System prompt"), required=False, help_text=FILLED)
    tool_groups = forms.MultipleChoiceField(
        label=gettext_lazy("Tool groups"),
        required=False,
        widget=forms.CheckboxSelectMultiple(attrs=TOOL_LIST),
        help_text=gettext_lazy("A run may use the tools of these groups only. None ticked: no tools."),
    )
    tools = ToolListField(
        label=gettext_lazy("Tools"),
        all_label=gettext_lazy("all tools of the ticked groups"),
        ticked_label=gettext_lazy("only the tools ticked below"),
        help_text=gettext_lazy("What a run is offered unless it is started with a choice of its own."),
    )

    snippet_tags = NameListField(
        label=gettext_lazy("Snippets by tag"), required=False, help_text=Configuration.snippet_tags.field.help_text
    )
    workspace = forms.ChoiceField(
        label=gettext_lazy("Workspace"), required=False, help_text=Configuration.workspace.field.help_text
    )

    class Meta:
        model = Configuration
        fields = [
            "slug",
            "name",
            "description",
            "model",
            "system_prompt",
            "snippet_tags",
            "temperature",
            "top_p",
            "max_tokens",
            "thinking",
            "seed",
            "stream",
            "max_rounds",
            "max_tool_result_bytes",
            "skill_budget_bytes",
            "max_run_tokens",
            "max_run_cost",
            "min_skill_trust",
            "compact_at",
            "keep_turns",
            "summarizer",
            "tool_groups",
            "tools",
            "tool_preset",
            "tool_choice",
            "workspace",
            "requires_other_decider",
            "enabled",
        ]
        widgets = {"description": AdminTextareaWidget(attrs={"rows": 3})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        known, row = every_tool(), self.instance
        for name, choices in (
            ("tool_groups", group_choices(known, row.tool_groups)),
            ("tools", tool_choices(known, row.tools or ())),
        ):
            field = self.fields.get(name)
            if isinstance(field, ToolListField):
                field.offer(choices)
            elif field is not None:
                field.choices = choices  # type: ignore[attr-defined]

        if "workspace" in self.fields:
            self.fields["workspace"].choices = workspace_choices(row.workspace)  # type: ignore[attr-defined]

    def clean_tool_groups(self) -> list[str]:
        return list(self.cleaned_data["tool_groups"])

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        known, groups = every_tool(), data.get("tool_groups", [])
        preset = data.get("tool_preset")
        for field, names in (("tools", data.get("tools")), ("tool_preset", preset.tools if preset else None)):
            outside = [name for name in names or () if name in known and known[name].group not in groups]
            if outside:
                wanted = ", ".join(f"{name} ({known[name].group})" for name in outside)
                self.add_error(field, _("Tick the groups of these tools too, or leave the tools out: %s.") % wanted)
        return data


def workspace_choices(stored: str) -> list[tuple[str, str]]:
    """The workspaces of this site with their folders, and the stored name where the site doesn't know it (any more)."""
    known = [(name, f"{name} ({workspace.root})") for name, workspace in workspaces().items()]
    unknown = [] if not stored or stored in dict(known) else [(stored, _("%s (not known to this site)") % stored)]
    return [("", _("none: no files, no terminal")), *known, *unknown]


class PlaceForm(forms.ModelForm):
    """A skill's or snippet's place in a configuration."""

    position = forms.IntegerField(
        label=gettext_lazy("Place"),
        required=False,
        min_value=0,
        max_value=LAST,
        widget=forms.NumberInput(attrs={"class": "vIntegerField"}),
        help_text=gettext_lazy("The lowest number comes first; left blank, it is the last one."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is None:
            self.initial["position"] = None

    def clean_position(self) -> int:
        position: int | None = self.cleaned_data["position"]
        return LAST if position is None else position


class FallbackFormSet(forms.BaseInlineFormSet):
    """The fallback models of a configuration: each another one, none of them the model that is asked first."""

    def clean(self) -> None:
        chain = [self.instance.model_id]
        for form in self.forms:
            model = form.cleaned_data.get("model") if hasattr(form, "cleaned_data") else None
            if model is None or form.cleaned_data.get("DELETE"):
                continue
            if model.pk in chain:
                form.add_error("model", self._again(model, first=model.pk == chain[0]))
            for problem in self.instance.asked_too_much_of(model, of_fallback=True).values():
                form.add_error("model", problem)
            chain.append(model.pk)

    @staticmethod
    def _again(model: LanguageModel, *, first: bool) -> str:
        if first:
            return _("%s is the model that is asked first: choose another one as its fallback.") % model
        return _("%s is listed already, and would be asked again after it failed: remove it here.") % model
