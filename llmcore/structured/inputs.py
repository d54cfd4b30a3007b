"""Named inputs of a prompt: what is given, what of it the prompt shows, and how it stands in the text."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from llmcore.errors import ConfigurationError, InvalidInput
from llmcore.messages import JSON, Part
from llmcore.structured.media import is_image, media_type_of, taken_by
from llmcore.structured.validation import read_answer

JSON_TYPE = "application/json"
# Digits of a digest: nobody can write a text that ends its own block.
MARK_DIGITS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Material:
    """What is given for an input. `media_type` is that of the input unless said otherwise; `origin` is where the bytes
    come from, for people: it never reaches a model."""

    data: bytes
    media_type: str = ""
    origin: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Projected:
    """What a prompt shows of a material: `data`, and what the manifest of a completion keeps of the whole
    (`provenance`: digests and counts, no contents)."""

    data: bytes
    provenance: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Input:
    """An input that a prompt declares, placed in its files as `{{name}}`.

    `project` makes of the bytes that are given what the prompt shows; it gets `None` where nothing was given, and says
    with a ValueError what is wrong with the bytes. Media types are `application/json`, those of text, those of pictures
    in `media.IMAGE_TYPES` and `image/*` for any of these. A picture is shown as it is, to models that take pictures.
    `example` is something to try the prompt with.
    """

    name: str
    label: str = ""
    media_type: str = "text/plain"
    required: bool = True
    project: Callable[[bytes | None], Projected] | None = None
    example: str = ""

    @property
    def title(self) -> str:
        return self.label or self.name.replace("_", " ").capitalize()

    @property
    def is_image(self) -> bool:
        return is_image(self.media_type)


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownInput:
    """An input as a prompt shows it: `data` are the projected bytes, `given` says whether there was a material."""

    input: Input
    data: bytes
    given: bool
    origin: str = ""
    provenance: Mapping[str, JSON] = field(default_factory=dict)

    @property
    def media_type(self) -> str:
        """What the bytes are, where the input takes several types."""
        return (self.input.is_image and media_type_of(self.data)) or self.input.media_type

    @property
    def image(self) -> Part | None:
        """The picture as a part of a message, where it is one and was given."""
        if not self.input.is_image or not self.given:
            return None
        return Part(kind="image", media_type=self.media_type, data=b64encode(self.data).decode())

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def block(self) -> str:
        """The labelled block in the prompt; an empty input keeps its name, and no block is blank. A picture stands
        between the lines of its block, at `image_at`."""
        mark = self.sha256[:MARK_DIGITS]
        text = "" if self.image else f"{self.data.decode('utf-8') or ' '}\n"
        return f"{self._opening}{text}</input {mark}>"

    @property
    def image_at(self) -> int:
        return len(self._opening)

    @property
    def _opening(self) -> str:
        return f'<input name="{self.input.name}" type="{self.media_type}" mark="{self.sha256[:MARK_DIGITS]}">\n'

    def manifest(self) -> dict[str, JSON]:
        return {
            "name": self.input.name,
            "media_type": self.media_type,
            "given": self.given,
            "bytes": len(self.data),
            "sha256": self.sha256,
            "provenance": dict(self.provenance),
            "origin": self.origin,
        }


def show(input: Input, material: Material | None, *, prompt: str) -> ShownInput:
    """The input as the prompt shows it. InvalidInput names the prompt and the input."""
    given = material is not None and bool(material.data.strip())
    if not given and input.required:
        message = f"The prompt “{prompt}” needs the input “{input.name}”: it is missing or empty."
        raise InvalidInput(message, name=input.name)
    if given and material is not None and (problem := _problem(input, material)):
        raise InvalidInput(f"The input “{input.name}” of the prompt “{prompt}” {problem}.", name=input.name)
    data = material.data if given and material is not None else None
    origin = material.origin if material is not None else ""
    if input.project is None:
        return ShownInput(input=input, data=data or b"", given=given, origin=origin)
    try:
        projected = input.project(data)
        projected.data.decode("utf-8")
    except (ValueError, ConfigurationError) as error:
        message = f"The input “{input.name}” of the prompt “{prompt}” can't be used: {error}."
        raise InvalidInput(message, name=input.name) from error
    return ShownInput(input=input, data=projected.data, given=given, origin=origin, provenance=projected.provenance)


def _problem(input: Input, material: Material) -> str:
    wanted, found = input.media_type, media_type_of(material.data)
    given = material.media_type or (found if input.is_image else wanted)
    takes = " or ".join(taken_by(wanted))
    if given not in taken_by(wanted):
        return f"is {given or 'none of the pictures that can be sent'}; the prompt takes {takes}"
    if input.is_image:
        return "" if found == given else f"is said to be {given}, and its bytes say {found or 'something else'}"
    try:
        text = material.data.decode("utf-8")
    except UnicodeDecodeError as error:
        is_a = f"is {found}; the prompt takes {takes}" if found else ""
        return is_a or f"is not valid UTF-8 at byte {error.start}"
    if "\0" in text:
        return "holds a NUL character"
    if wanted == JSON_TYPE:
        try:
            read_answer(text)
        except ValueError as error:
            return f"is no JSON: {error}"
    return ""
