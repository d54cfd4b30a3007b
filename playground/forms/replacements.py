"""The part of the form of a run that says which tools don't simply run, and what answers their calls then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from llmcore.tools.replacement import Mode, Replacement
from playground.services.run_choices import ToolChoice

MODES = [
    ("", _("Runs")),
    (Mode.RECORDED.value, _("Recorded result")),
    (Mode.TYPED.value, _("Typed-in result")),
    (Mode.ASK.value, _("Ask me each time")),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplacementInput:
    """The fields of one tool."""

    tool: ToolChoice
    mode: forms.BoundField
    text: forms.BoundField
    failed: forms.BoundField

    @property
    def options(self) -> list[tuple[str, Any, bool]]:
        """Value, label and whether it is chosen."""
        return [(value, label, value == (self.mode.value() or "")) for value, label in MODES]


def add_fields(form: forms.Form, tools: Iterable[ToolChoice]) -> None:
    """Fields for each tool that can be offered, and one for the run that recorded results come from."""
    form.fields["recorded_from"] = forms.IntegerField(
        label=_("Recorded results are those of run"), required=False, min_value=1
    )
    for tool in tools:
        form.fields[f"mode_{tool.name}"] = forms.ChoiceField(label=tool.name, choices=MODES, required=False)
        form.fields[f"typed_{tool.name}"] = forms.CharField(label=_("Result"), required=False, strip=False)
        form.fields[f"typed_failed_{tool.name}"] = forms.BooleanField(label=_("as an error"), required=False)


def inputs_of(form: forms.Form, tools: Iterable[ToolChoice]) -> list[ReplacementInput]:
    return [
        ReplacementInput(
            tool=tool,
            mode=form[f"mode_{tool.name}"],
            text=form[f"typed_{tool.name}"],
            failed=form[f"typed_failed_{tool.name}"],
        )
        for tool in tools
    ]


def replacements_of(
    data: Mapping[str, Any], tools: Iterable[ToolChoice], offered: Iterable[str] | None
) -> tuple[Replacement, ...]:
    """What was chosen for the tools that are `offered` (`None`: any); recorded results are still to be fetched."""
    names = None if offered is None else set(offered)
    found = []
    for tool in tools:
        mode = data.get(f"mode_{tool.name}")
        if not mode or (names is not None and tool.name not in names):
            continue
        typed = mode == Mode.TYPED
        found.append(
            Replacement(
                tool=tool.name,
                mode=Mode(mode),
                text=data[f"typed_{tool.name}"].replace("\r\n", "\n") if typed else "",
                is_error=typed and data[f"typed_failed_{tool.name}"],
                run=data["recorded_from"] if mode == Mode.RECORDED else None,
            )
        )
    return tuple(found)


def values_of(replacements: Iterable[Replacement]) -> dict[str, Any]:
    """The values of the fields for these replacements."""
    values: dict[str, Any] = {}
    for item in replacements:
        values[f"mode_{item.tool}"] = item.mode.value
        if item.mode is Mode.TYPED:
            values |= {f"typed_{item.tool}": item.text, f"typed_failed_{item.tool}": item.is_error}
        if item.run is not None:
            values["recorded_from"] = item.run
    return values
