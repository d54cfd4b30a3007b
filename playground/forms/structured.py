"""The form of a structured completion: fields for each input and variable of the prompt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from django import forms
from django.forms import BoundField
from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext_lazy as _

from llmcore.conf import settings
from llmcore.errors import ConfigurationError, InvalidInput
from llmcore.models import Configuration
from llmcore.structured.expected import MAX_REPAIRS
from llmcore.structured.inputs import Input
from llmcore.structured.packs import Prompt
from playground.forms import given_inputs
from playground.forms.given_inputs import FILE, KEPT, ORIGIN, TEXT, InputFields
from playground.forms.raw_capture import RawCapture, capture_raw_field
from playground.privacy import raw_capture_refused
from playground.services.start_run import MAX_TITLE_CHARS, RunRequest
from playground.structured_run import GivenInput, StructuredRun

VARIABLE = "variable-"


class StructuredForm(RawCapture, forms.Form):
    """What a person asks for with a prompt of a pack. Blank optional inputs are not given.

    `earlier` is what the run was asked for that the form is filled in from: a picture of it can be used again, though
    no browser can send it.
    """

    configuration = forms.ChoiceField(label=_("Configuration"))
    title = forms.CharField(label=_("Title"), max_length=MAX_TITLE_CHARS, required=False)
    session = forms.CharField(label=_("Session"), max_length=MAX_TITLE_CHARS, required=False)
    repairs = forms.IntegerField(label=_("Repairs"), min_value=0, max_value=MAX_REPAIRS)
    capture_raw = capture_raw_field()

    def __init__(
        self,
        *args: Any,
        prompt: Prompt,
        configurations: Iterable[Configuration],
        earlier: StructuredRun | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.prompt = prompt
        self.given: dict[str, GivenInput] = {}
        self._earlier = {given.name: given for given in earlier.inputs if given.data} if earlier else {}
        choices = [(row.slug, f"{row.name} · {row.model}") for row in configurations]
        cast(forms.ChoiceField, self.fields["configuration"]).choices = choices
        for given in prompt.inputs:
            given_inputs.add_fields(self, given)
        for name, default in prompt.variables.items():
            self.fields[VARIABLE + name] = forms.CharField(
                label=name, required=default is None, error_messages={"required": _("Enter a value.")}
            )

    @property
    def input_fields(self) -> list[InputFields]:
        return [
            InputFields(
                form=self,
                input=given,
                earlier=self._earlier.get(given.name) if given.is_image else None,
                chosen_again=self._chosen_again(given),
            )
            for given in self.prompt.inputs
        ]

    @property
    def variable_fields(self) -> list[BoundField]:
        return [self[VARIABLE + name] for name in self.prompt.variables]

    def _chosen_again(self, input: Input) -> str:
        """The name of a file that was chosen and that the page has nothing of."""
        upload = self.files.get(FILE + input.name)
        in_page = not input.is_image and self[ORIGIN + input.name].value() and self[TEXT + input.name].value()
        return str(upload.name) if upload and not in_page else ""

    def clean(self) -> dict[str, Any]:
        data = dict(super().clean() or self.cleaned_data)
        for input in self.prompt.inputs:
            if self.has_error(TEXT + input.name) or self.has_error(FILE + input.name):
                continue
            try:
                found = self._given(input, data)
            except forms.ValidationError as error:
                self.add_error(FILE + input.name if input.is_image else TEXT + input.name, error)
            else:
                self.given |= {input.name: found} if found else {}
        size, most = sum(given.sent_size for given in self.given.values()), settings.LLM_MAX_REQUEST_BYTES
        if size > most:
            message = _("Together the inputs take %(size)s of a request; this site sends at most %(most)s.")
            sizes = {"size": filesizeformat(size), "most": filesizeformat(most)}
            raise forms.ValidationError(message, code="too_large", params=sizes)
        return data

    def _given(self, input: Input, data: dict[str, Any]) -> GivenInput | None:
        upload, name = data.get(FILE + input.name), input.name
        if input.is_image:
            kept = self._earlier.get(name) if data.get(KEPT + name) else None
            return given_inputs.given_picture(input, kept, upload)
        origin = given_inputs.origin_of(data.get(ORIGIN + name), data[TEXT + name])
        given = given_inputs.given_text(input, data[TEXT + name], origin, upload)
        if upload and given and given.size <= given_inputs.CARRIED_BYTES:
            # A browser forgets the file with the page; its text stays, if the page has to be shown again.
            mark = given_inputs.mark_of(given.origin, given.text)
            self.data = {**dict(self.data.items()), TEXT + name: given.text, ORIGIN + name: mark}
        return given

    def refuse(self, error: ConfigurationError) -> None:
        """Say what is wrong, at the field that it is about, if that can be told."""
        name = error.name if isinstance(error, InvalidInput) else ""
        self.add_error(next(self._fields_of(name), None), str(error))

    def _fields_of(self, name: str) -> Iterator[str]:
        return (prefix + name for prefix in (TEXT, FILE, VARIABLE) if prefix + name in self.fields)

    def run_request(self, *, dry_run: bool) -> RunRequest:
        """What the valid form asks for."""
        data = self.cleaned_data
        return RunRequest(
            configuration=data["configuration"],
            prompt="",
            title=data["title"],
            variables={name: data[VARIABLE + name] for name in self.prompt.variables if data[VARIABLE + name].strip()},
            structured=StructuredRun(
                prompt=self.prompt.id,
                inputs=tuple(self.given.values()),
                session=data["session"],
                repairs=data["repairs"],
            ),
            dry_run=dry_run,
            capture_raw=data["capture_raw"],
        )


def first_values(prompt: Prompt, *, configuration: str, examples: bool) -> dict[str, Any]:
    """The empty form, or with the `examples` of the prompt's inputs."""
    values: dict[str, Any] = {"configuration": configuration, "repairs": 1}
    values |= {VARIABLE + name: default or "" for name, default in prompt.variables.items()}
    if examples:
        values |= {TEXT + given.name: given.example for given in prompt.inputs}
    return values


def values_of(prompt: Prompt, request: RunRequest, title: str) -> dict[str, Any]:
    """The form like an earlier request for the same prompt."""
    structured = request.structured
    assert structured is not None
    values = first_values(prompt, configuration=request.configuration, examples=False)
    earlier = {given.name: given for given in structured.inputs}
    for input in prompt.inputs:
        values |= given_inputs.values_of(input, earlier.get(input.name))
    return {
        **values,
        **{VARIABLE + name: value for name, value in request.variables.items()},
        "title": title,
        "session": structured.session,
        "repairs": structured.repairs,
        "capture_raw": request.capture_raw and not raw_capture_refused(),
    }
