"""Pictures that were sent to a model: as the page of a run names them, and their bytes."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from dataclasses import dataclass

from django.urls import reverse

from llmcore.messages import JSON, Message, Part
from llmcore.prompts.assembly import Segment
from playground.models import Run, RunContent
from playground.pictures import picture_label, type_of_picture
from playground.reading.plan import Plan


@dataclass(frozen=True, kw_only=True, slots=True)
class PictureView:
    """A picture as a page shows it: small, by its address `url`, and in full behind it."""

    name: str
    label: str
    url: str


def picture_view(run: Run, digest: str, number: int, part: Part, name: str) -> PictureView | None:
    """The part `number` (from 0) of the message `digest`. `None` where there is nothing to show: it isn't kept, or is
    of no type that is shown."""
    if not type_of_picture(part.media_type, part.data):
        return None
    url = reverse("playground:run_picture", args=[run.pk, digest, number])
    return PictureView(name=name, label=picture_label(part.media_type, part.data), url=url)


def part_of(message: JSON, segment: Segment) -> Part | None:
    """The part that `segment` explains of its message, as that is stored; `None` where it no longer is."""
    parts = Message.from_json(message).parts if message else ()
    return parts[segment.part] if segment.part < len(parts) else None


def picture_of(run: Run, plan: Plan, digest: str, segment: Segment, part: Part | None) -> PictureView | None:
    """The picture that `segment` explains, called as its file was, else as the input that it was given for."""
    if part is None or part.kind != "image":
        return None
    return picture_view(run, digest, segment.part, part, plan.files.get(segment.source_id) or segment.label)


def find_picture(run: Run, digest: str, number: int) -> tuple[bytes, str] | None:
    """The bytes of a picture of the run and their media type; `None` where they are no longer stored. LookupError where
    the run has no such picture."""
    row = RunContent.objects.filter(run=run, digest=digest).first()
    if row is None:
        raise LookupError(f"no content {digest}")
    if row.value is None:
        return None
    # Other contents are results, lists of tools and texts.
    if not isinstance(row.value, dict) or not {"role", "parts"} <= row.value.keys():
        raise LookupError(f"the content {digest} is no message")
    parts = Message.from_json(row.value).parts
    if number >= len(parts) or parts[number].kind != "image":
        raise LookupError(f"no picture {number} in the message {digest}")
    part = parts[number]
    if not part.data:
        return None
    if not (media_type := type_of_picture(part.media_type, part.data)):
        raise LookupError(f"the picture {number} of the message {digest} is of no type that is shown")
    try:
        return b64decode(part.data), media_type
    except NotBase64 as error:
        raise LookupError(f"the picture {number} of the message {digest} can't be read") from error
