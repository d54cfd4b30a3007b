"""The fields of the inputs of a structured completion: a text is typed or comes from a file, a picture is a file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.forms import BoundField
from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _

from llmcore.conf import settings
from llmcore.structured.inputs import JSON_TYPE, Input
from llmcore.structured.media import media_type_of, taken_by
from playground.forms.new_run import MAX_PROMPT_BYTES, TextField
from playground.structured_run import GivenInput

TEXT, FILE, KEPT, ORIGIN = "input-", "file-", "kept-", "origin-"
MAX_ORIGIN_CHARS = 200
# A longer text of a file isn't sent back into the page, where it would have to be sent once more with the form.
CARRIED_BYTES = 500_000


def max_picture_bytes() -> int:
    """A picture travels as base64, a third larger; with it a request of this site has room for the text around it."""
    return settings.LLM_MAX_REQUEST_BYTES // 2


def add_fields(form: forms.Form, input: Input) -> None:
    form.fields[FILE + input.name] = forms.FileField(label=input.title, required=False, allow_empty_file=True)
    if input.is_image:
        form.fields[KEPT + input.name] = forms.BooleanField(required=False)
    else:
        # Whether it is there at all is known with its file only.
        form.fields[TEXT + input.name] = TextField(label=input.title, required=False)
        form.fields[ORIGIN + input.name] = forms.CharField(required=False, widget=forms.HiddenInput)


@dataclass(frozen=True, kw_only=True, slots=True)
class InputFields:
    """The fields of one input as a page shows them. `earlier` is the picture of the run that the form was filled in
    from; `chosen_again` the name of a file that was chosen, and that a browser forgets with the page."""

    form: forms.Form
    input: Input
    earlier: GivenInput | None = None
    chosen_again: str = ""

    @property
    def text(self) -> BoundField | None:
        return None if self.input.is_image else self.form[TEXT + self.input.name]

    @property
    def file(self) -> BoundField:
        return self.form[FILE + self.input.name]

    @property
    def main(self) -> BoundField:
        """The field that is labelled, and where it says what is wrong."""
        return self.text or self.file

    @property
    def kept(self) -> BoundField | None:
        return self.form[KEPT + self.input.name] if self.earlier else None

    @property
    def origin(self) -> str:
        """The file that the text in the page is from; empty where somebody typed it."""
        return "" if self.text is None else origin_of(self.form[ORIGIN + self.input.name].value(), self.text.value())

    @property
    def origin_value(self) -> str:
        return str(self.form[ORIGIN + self.input.name].value() or "") if self.origin else ""

    @property
    def hint(self) -> str:
        kind = "JSON" if self.input.media_type == JSON_TYPE else self.input.media_type
        if self.input.is_image:
            names = [media_type.removeprefix("image/").upper() for media_type in taken_by(self.input.media_type)]
            kind = f"{', '.join(names)}; {_('at most')} {filesizeformat(self.max_bytes)}"
        return kind if self.input.required else f"{kind}, {_('optional')}"

    @property
    def accept(self) -> str:
        """What a browser offers; of texts anything, since browsers know few of them by their names."""
        if self.input.is_image:
            return ",".join(taken_by(self.input.media_type))
        return ".json,application/json" if self.input.media_type == JSON_TYPE else ""

    @property
    def max_bytes(self) -> int:
        return max_picture_bytes() if self.input.is_image else MAX_PROMPT_BYTES


def given_text(input: Input, text: str, origin: str, upload: UploadedFile | None) -> GivenInput | None:
    """The text of a file, else the typed one; `None` where there is neither. ValidationError says what to change."""
    if upload is not None and text.strip():
        message = _(
            "There is a text as well, so “%(name)s” was not used. Clear the text and choose the file again, or go on "
            "with the text."
        )
        raise forms.ValidationError(message, code="both", params={"name": upload.name})
    if upload is not None:
        text, origin = text_of(upload), str(upload.name)
        if not text.strip():
            raise forms.ValidationError(_("“%(name)s” is empty."), code="empty", params={"name": upload.name})
    if not text.strip():
        if input.required:
            raise forms.ValidationError(_("Enter this input, or choose a file."), code="required")
        return None
    return GivenInput(name=input.name, text=text, origin=origin[:MAX_ORIGIN_CHARS])


def given_picture(input: Input, kept: GivenInput | None, upload: UploadedFile | None) -> GivenInput | None:
    """The picture that was uploaded, else the one that is `kept`; as `given_text` otherwise."""
    if upload is None:
        if kept is None and input.required:
            raise forms.ValidationError(_("Choose a picture."), code="required")
        return kept
    data, takes = bytes_of(upload, max_picture_bytes()), taken_by(input.media_type)
    if (found := media_type_of(data)) not in takes:
        message = _("“%(name)s” is %(found)s; this input takes %(takes)s.")
        told = {"name": upload.name, "found": found or _("no picture"), "takes": _(" or ").join(takes)}
        raise forms.ValidationError(message, code="media_type", params=told)
    return GivenInput.of_picture(
        name=input.name, data=data, media_type=found, origin=str(upload.name)[:MAX_ORIGIN_CHARS]
    )


def bytes_of(upload: UploadedFile, most: int) -> bytes:
    if (size := upload.size or 0) > most:
        message = _("“%(name)s” has %(size)s; at most %(most)s can be sent.")
        sizes = {"size": filesizeformat(size), "most": filesizeformat(most)}
        raise forms.ValidationError(message, code="too_large", params={"name": upload.name, **sizes})
    return bytes(upload.read())


def text_of(upload: UploadedFile) -> str:
    """The text of a file with the line ends of all texts here, without the mark that some editors put before it."""
    data = bytes_of(upload, MAX_PROMPT_BYTES)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        message = _("“%(name)s” is %(found)s; this input takes text in UTF-8.")
        told = {"name": upload.name, "found": media_type_of(data) or _("no text in UTF-8")}
        raise forms.ValidationError(message, code="media_type", params=told)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def mark_of(origin: str, text: str) -> str:
    """Names the file that a text is from, for as long as nobody changes the text."""
    return f"{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()} {origin}"


def origin_of(mark: Any, text: Any) -> str:
    origin = str(mark or "").partition(" ")[2]
    text = str(text or "").replace("\r\n", "\n").replace("\r", "\n")
    return origin if origin and mark == mark_of(origin, text) else ""


def values_of(input: Input, given: GivenInput | None) -> Mapping[str, Any]:
    """The first values of the fields with what an earlier run was given."""
    if input.is_image:
        return {KEPT + input.name: bool(given and given.data)}
    text, origin = (given.text, given.origin) if given else ("", "")
    return {TEXT + input.name: text, ORIGIN + input.name: mark_of(origin, text) if origin else ""}
