"""The form of a structured completion: a field for each input and variable of the prompt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from django import forms
from django.forms import BoundField
from django.utils.translation import gettext_lazy as _

from llmcore.errors import ConfigurationError, InvalidInput
from llmcore.models import Configuration
from llmcore.structured.expected import MAX_REPAIRS
from llmcore.structured.inputs import JSON_TYPE, Input
from llmcore.structured.packs import Prompt
from playground.forms.new_run import TextField
from playground.forms.raw_capture import RawCapture, capture_raw_field
from playground.privacy import raw_capture_refused
from playground.services.start_run import MAX_TITLE_CHARS, RunRequest
from playground.structured_run import GivenInput, StructuredRun

INPUT, VARIABLE = "input-", "variable-"


class StructuredForm(RawCapture, forms.Form):
    """What a person asks for with a prompt of a pack. Blank optional inputs are not given."""

    configuration = forms.ChoiceField(label=_("Configuration"))
    title = forms.CharField(label=_("Title"), max_length=MAX_TITLE_CHARS, required=False)
    repairs = forms.IntegerField(label=_("Repairs"), min_value=0, max_value=MAX_REPAIRS)
    capture_raw = capture_raw_field()

    def __init__(self, *args: Any, prompt: Prompt, configurations: Iterable[Configuration], **options: Any) -> None:
        super().__init__(*args, **options)
        self.prompt = prompt
        choices = [(row.slug, f"{row.name} · {row.model}") for row in configurations]
        cast(forms.ChoiceField, self.fields["configuration"]).choices = choices
        for given in prompt.inputs:
            self.fields[INPUT + given.name] = TextField(
                label=given.title,
                required=given.required,
                help_text=hint_of(given),
                error_messages={"required": _("Enter this input.")},
            )
        for name, default in prompt.variables.items():
            self.fields[VARIABLE + name] = forms.CharField(
                label=name, required=default is None, error_messages={"required": _("Enter a value.")}
            )

    @property
    def input_fields(self) -> list[BoundField]:
        return [self[INPUT + given.name] for given in self.prompt.inputs]

    @property
    def variable_fields(self) -> list[BoundField]:
        return [self[VARIABLE + name] for name in self.prompt.variables]

    def refuse(self, error: ConfigurationError) -> None:
        """Say what is wrong, at the field that it is about, if that can be told."""
        name = error.name if isinstance(error, InvalidInput) else ""
        field = next((prefix + name for prefix in (INPUT, VARIABLE) if prefix + name in self.fields), None)
        self.add_error(field, str(error))

    def run_request(self, *, dry_run: bool) -> RunRequest:
        """What the valid form asks for."""
        data = self.cleaned_data
        given = ((item.name, data[INPUT + item.name]) for item in self.prompt.inputs)
        return RunRequest(
            configuration=data["configuration"],
            prompt="",
            title=data["title"],
            variables={name: data[VARIABLE + name] for name in self.prompt.variables if data[VARIABLE + name].strip()},
            structured=StructuredRun(
                prompt=self.prompt.id,
                inputs=tuple(GivenInput(name=name, text=text) for name, text in given if text.strip()),
                repairs=data["repairs"],
            ),
            dry_run=dry_run,
            capture_raw=data["capture_raw"],
        )


def hint_of(given: Input) -> str:
    kind = "JSON" if given.media_type == JSON_TYPE else given.media_type
    return kind if given.required else f"{kind}, optional"


def first_values(prompt: Prompt, *, configuration: str, examples: bool) -> dict[str, Any]:
    """The empty form, or with the `examples` of the prompt's inputs."""
    values: dict[str, Any] = {"configuration": configuration, "repairs": 1}
    values |= {VARIABLE + name: default or "" for name, default in prompt.variables.items()}
    if examples:
        values |= {INPUT + given.name: given.example for given in prompt.inputs}
    return values


def values_of(prompt: Prompt, request: RunRequest, title: str) -> dict[str, Any]:
    """The form like an earlier request for the same prompt."""
    structured = request.structured
    assert structured is not None
    texts: Mapping[str, str] = {given.name: given.text for given in structured.inputs}
    return {
        **first_values(prompt, configuration=request.configuration, examples=False),
        **{INPUT + given.name: texts.get(given.name, "") for given in prompt.inputs},
        **{VARIABLE + name: value for name, value in request.variables.items()},
        "title": title,
        "repairs": structured.repairs,
        "capture_raw": request.capture_raw and not raw_capture_refused(),
    }
