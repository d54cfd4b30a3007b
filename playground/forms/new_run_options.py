"""What can be chosen in the form of a new run, as it stands in the form: ticked or not, and in which place."""

from __future__ import annotations

from dataclasses import dataclass

from django import forms

from playground.services.run_choices import TextChoice, ToolChoice


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """A row of a checklist as the form shows it. `position` counts from 1 among the selected, 0 is not selected."""

    choice: TextChoice
    position: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolOption:
    """A tool of the form with its tick."""

    choice: ToolChoice
    checked: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolOptionGroup:
    """The tools of a group with their ticks."""

    name: str
    tools: tuple[ToolOption, ...]

    @property
    def selectable(self) -> list[ToolOption]:
        return [tool for tool in self.tools if not tool.choice.unavailable]

    @property
    def reason(self) -> str:
        """Why none of the group can be offered, where it is the same reason for all."""
        reasons = {tool.choice.unavailable for tool in self.tools}
        return reasons.pop() if len(reasons) == 1 else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ParameterInput:
    """A parameter as the form asks for it. `configured` is what it is when left blank."""

    field: forms.BoundField
    configured: str
    supported: bool = True
    options: tuple[tuple[str, str], ...] = ()
    inputmode: str = "numeric"
