"""The form of a run that goes on from the middle of another one: its messages as edited, and what else differs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from llmcore.conf import settings
from llmcore.runs.editing import Edit, arguments_of
from playground.forms.new_run import MAX_PROMPT_BYTES, NewRunForm
from playground.forms.new_run_options import ToolOption, ToolOptionGroup
from playground.services.fork_run import ForkPoint, ForkRefused, edited_fork, request_of
from playground.services.run_choices import RunChoices
from playground.services.start_run import RunRequest

# A text of part P of message M is `text-M-P`, the arguments of its call C `call-M-C`. A result also has `failed-M`.
EDIT = re.compile(r"(text|call)-(\d{1,6})-(\d{1,6})")
OWN_TEXTS = ("prompt", "override", "system_override", "skills", "snippets", "versions")


class ForkForm(NewRunForm):
    """What a person asks for when going on from the middle of a run. Only messages that were opened are sent along.

    `message_errors` says what is wrong with which message, by its index.
    """

    def __init__(self, *args: Any, choices: RunChoices, point: ForkPoint, **options: Any) -> None:
        super().__init__(*args, choices=choices, **options)
        for name in OWN_TEXTS:
            del self.fields[name]
        self.point = point
        self.message_errors: dict[int, list[str]] = {}

    @property
    def typed(self) -> dict[tuple[str, int, int], str]:
        """The texts that were sent, by kind, message and place in it."""
        found = ((EDIT.fullmatch(name), value) for name, value in self.data.items())
        return {(m[1], int(m[2]), int(m[3])): newlines(value) for m, value in found if m and isinstance(value, str)}

    def failed(self, message: int) -> bool | None:
        """Whether the result in `message` is to be a failure; `None` where it wasn't opened."""
        given: str | None = self.data.get(f"failed-{message}")
        return None if given is None else given == "1"

    def clean(self) -> dict[str, Any]:
        data = super().clean()
        self.edits = self._edits()
        if not self.message_errors:
            try:
                edited_fork(point=self.point, edits=self.edits)
            except ForkRefused as refused:
                for index, text in refused.objections:
                    self._refuse(index, text)
            except ValueError as error:
                raise forms.ValidationError(str(error), code="damaged") from error
        self._check_rounds(data)
        if self.message_errors:
            raise forms.ValidationError(_("A message can't be sent as it is now."), code="messages")
        return data

    def _edits(self) -> list[Edit]:
        """What was typed and differs from what was there."""
        messages = self.point.fork.state.messages
        edits = []
        for (kind, index, place), text in self.typed.items():
            if index >= len(messages):
                self._refuse(None, f"There is no message {index + 1} any more.")
            elif len(text.encode("utf-8", "surrogatepass")) > MAX_PROMPT_BYTES:
                self._refuse(index, "This is longer than 1 MB.")
            elif kind == "text":
                parts = messages[index].parts
                # A browser sends other line ends than a tool may have given.
                if place < len(parts) and newlines(parts[place].text) == text:
                    text = parts[place].text
                edits.append(Edit(message=index, part=place, text=text, is_error=self.failed(index)))
            else:
                edits += self._call_edits(index, place, text)
        return edits

    def _call_edits(self, index: int, place: int, text: str) -> list[Edit]:
        try:
            arguments_of(text)
        except ValueError as error:
            self._refuse(index, str(error))
            return []
        return [Edit(message=index, call=place, text=text)]

    def _refuse(self, index: int | None, text: str) -> None:
        if index is None:
            self.add_error(None, text)
        else:
            self.message_errors.setdefault(index, []).append(text)

    def _check_rounds(self, data: Mapping[str, Any]) -> None:
        used, row = self.point.fork.state.rounds_used, self.choices.configuration
        allowed = data.get("max_rounds") or (min(row.max_rounds, settings.LLM_MAX_ROUNDS) if row else None)
        if allowed is not None and allowed < used and "max_rounds" not in self.errors:
            message = _("%(used)s rounds are used up to here: allow more than that.") % {"used": used}
            self.add_error("max_rounds", forms.ValidationError(message, code="used_up"))

    def run_request(self, *, dry_run: bool = False) -> RunRequest:
        """The valid form as a request, with the edited fork in it."""
        fork = edited_fork(point=self.point, edits=self.edits)
        return replace(request_of(self.point.run), **self.run_settings(dry_run=dry_run), fork=fork)

    @property
    def tool_options(self) -> list[ToolOptionGroup]:
        """Another configuration's tools are, until they are chosen, those that the run had."""
        configuration = self.choices.configuration
        if configuration is not None and self["tools_of"].value() == configuration.slug:
            return super().tool_options
        had = self.point.fork.state.offered
        return [
            ToolOptionGroup(
                name=group.name,
                tools=tuple(
                    ToolOption(choice=tool, checked=tool.name in had and not tool.unavailable) for tool in group.tools
                ),
            )
            for group in self.choices.tool_groups
        ]


def newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
