"""Form fields that the areas share: prompt texts, lists of names, and choices among the tools of the site."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from llmcore.tools.base import Effect, Tool

Choices = list[tuple[str, Any]]
ALL, TICKED = "all", "ticked"
# For the style sheet.
TOOL_LIST = {"class": "tool-list"}
EFFECTS = {
    Effect.READ_ONLY: gettext_lazy("reads only"),
    Effect.IDEMPOTENT_WRITE: gettext_lazy("writes, may be repeated"),
    Effect.NON_IDEMPOTENT_WRITE: gettext_lazy("writes, must not be repeated"),
}


FILLED = gettext_lazy("{{name}} asks each run for a value; \\{{name}} is the text {{name}} itself.")


class PromptField(forms.CharField):
    """A text that reaches a model exactly as it was typed: not stripped, with one kind of line end.

    Browsers send CRLF; taken as it comes, every save would change the text and its digest.
    """

    def __init__(self, *, rows: int = 16, **kwargs: Any) -> None:
        widget = forms.Textarea(attrs={"rows": rows, "cols": 100, "class": "vLargeTextField"})
        super().__init__(strip=False, widget=widget, **kwargs)

    def to_python(self, value: Any) -> str:
        text = super().to_python(value) or ""
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def validate(self, value: Any) -> None:
        super().validate(value.strip())


class NameListField(forms.CharField):
    """A list of names, typed with commas between them."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("widget", forms.TextInput(attrs={"class": "vTextField"}))
        super().__init__(**kwargs)

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(map(str, value)) if isinstance(value, list) else value

    def to_python(self, value: Any) -> list[str]:  # type: ignore[override]
        if isinstance(value, list):
            return value
        names = (name.strip() for name in (super().to_python(value) or "").split(","))
        return list(dict.fromkeys(name for name in names if name))


class ToolListWidget(forms.MultiWidget):
    """All tools, or a tick for each."""

    use_fieldset = True

    def __init__(self, scopes: Choices, choices: Choices) -> None:
        super().__init__(
            [
                forms.RadioSelect(attrs=TOOL_LIST, choices=scopes),
                forms.CheckboxSelectMultiple(attrs=TOOL_LIST, choices=choices),
            ]
        )

    def decompress(self, value: Any) -> list[Any]:
        return [ALL, []] if value is None else [TICKED, value]


class ToolListField(forms.MultiValueField):
    """A list of tool names, an empty one too, or None for no list at all; the two mean different things."""

    def __init__(self, *, all_label: Any, ticked_label: Any, **kwargs: Any) -> None:
        self.scopes: Choices = [(ALL, all_label), (TICKED, ticked_label)]
        fields = (forms.ChoiceField(choices=self.scopes), forms.MultipleChoiceField(required=False))
        super().__init__(
            fields, widget=ToolListWidget(self.scopes, []), required=False, require_all_fields=False, **kwargs
        )

    def offer(self, choices: Choices) -> None:
        self.fields[1].choices = choices  # type: ignore[attr-defined]
        self.widget = ToolListWidget(self.scopes, choices)

    def prepare_value(self, value: Any) -> Any:
        # A stored list would be taken for the values of the two widgets.
        sent = isinstance(value, list) and len(value) == 2 and isinstance(value[1], list)
        return value if sent else self.widget.decompress(value)

    def has_changed(self, initial: Any, data: Any) -> bool:
        return super().has_changed(self.prepare_value(initial), data)

    def compress(self, data_list: Sequence[Any]) -> list[str] | None:
        # Without any data (a form sent by a program) the field is what it is at first: no list.
        scope, names = data_list or (ALL, [])
        if scope != TICKED and names:
            raise ValidationError(
                _("You ticked tools but chose “%(scope)s”. Choose “%(ticked)s”, or untick them."),
                params={"scope": self.scopes[0][1], "ticked": self.scopes[1][1]},
            )
        return list(names) if scope == TICKED else None


def tool_choices(tools: Mapping[str, Tool], stored: Iterable[str]) -> Choices:
    """The known tools by group with what they do, and the stored names that this site doesn't know (any more)."""
    groups: dict[str, Choices] = {}
    for tool in _by_group(tools):
        sentence = " ".join(tool.description.split()).split(". ")[0].rstrip(".")
        text = f"{tool.name}: {Truncator(sentence).chars(160)} ({EFFECTS[tool.effect]})"
        groups.setdefault(tool.group, []).append((tool.name, text))
    return [*groups.items(), *_unknown(stored, tools)]


def group_choices(tools: Mapping[str, Tool], stored: Iterable[str]) -> Choices:
    """The known groups with their tools, and the stored names that this site doesn't know (any more)."""
    groups: dict[str, list[str]] = {}
    for tool in _by_group(tools):
        groups.setdefault(tool.group, []).append(tool.name)
    known = [(group, f"{group}: {', '.join(names)}") for group, names in groups.items()]
    return [*known, *_unknown(stored, groups)]


def _by_group(tools: Mapping[str, Tool]) -> list[Tool]:
    return sorted(tools.values(), key=lambda tool: (tool.group, tool.name))


def _unknown(stored: Iterable[str], known: Mapping[str, Any]) -> Choices:
    return [(name, _("%s (not known to this site)") % name) for name in stored if name not in known]
