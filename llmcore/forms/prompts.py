"""The forms of skills and snippets."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.admin.widgets import AdminTextareaWidget
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from llmcore.forms.fields import FILLED, NameListField, PromptField, ToolListField, tool_choices
from llmcore.mcp_servers import every_tool
from llmcore.models import Skill, Snippet


class SkillForm(forms.ModelForm):
    """A skill as it is typed. A body that was changed past this form is taken only by an explicit tick."""

    body = PromptField(label=gettext_lazy("Body"), help_text=Skill.body.field.help_text, rows=24)
    accept_body = forms.BooleanField(
        label=gettext_lazy("I have read this body: use it from now on"),
        required=False,
        help_text=gettext_lazy("The body was changed past this form, so runs leave this skill out."),
    )
    allowed_tools = ToolListField(
        label=gettext_lazy("Allowed tools"),
        all_label=gettext_lazy("no restriction"),
        ticked_label=gettext_lazy("only the tools ticked below"),
        help_text=gettext_lazy("Runs are offered only what one of their skills allows. It never approves anything."),
    )

    class Meta:
        model = Skill
        fields = ["slug", "name", "description", "body", "allowed_tools", "trust", "enabled"]
        widgets = {"description": AdminTextareaWidget(attrs={"rows": 3})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # As saved, before the form writes on the instance.
        self.was_sealed = self.instance.pk is None or self.instance.is_sealed
        field = self.fields.get("allowed_tools")
        if isinstance(field, ToolListField):
            field.offer(tool_choices(every_tool(), self.instance.allowed_tools or ()))

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if not self.was_sealed and "body" in self.changed_data and not data.get("accept_body"):
            self.add_error(
                "accept_body",
                _("The body was changed past this form before you edited it. Read all of it, then tick this."),
            )
        return data

    @property
    def seals(self) -> bool:
        """Whether saving makes the body the true one."""
        return self.was_sealed or bool(self.cleaned_data.get("accept_body"))


class SnippetForm(forms.ModelForm):
    """A snippet as it is typed."""

    body = PromptField(label=gettext_lazy("Body"), help_text=FILLED)
    tags = NameListField(
        label=gettext_lazy("Tags"),
        required=False,
        help_text=gettext_lazy("With commas between them. Configurations can take all snippets with a tag."),
    )

    class Meta:
        model = Snippet
        fields = ["slug", "name", "body", "tags", "enabled"]
