"""Inputs of structured completions that are pictures: what is taken, where they stand, who is shown none (J1)."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llmcore.configuration import LanguageModel, Route
from llmcore.context.tokens import TOKENS_PER_IMAGE
from llmcore.errors import InvalidInput, InvalidManifest
from llmcore.prompts.assembly import Source
from llmcore.providers.base import Transcript
from llmcore.providers.registry import adapter_of, adapters
from llmcore.runs.fallback import call_to
from llmcore.structured.inputs import Input, Material, Projected
from llmcore.structured.media import media_type_of
from llmcore.structured.packs import Entry, Tier
from llmcore.structured.request import Ready, StructuredRequest, make_ready
from tests.llmcore.prompt_packs import (
    GIF,
    GIVEN,
    INPUTS,
    JPEG,
    PDF,
    PHOTO,
    PNG,
    WEBP,
    WITH_PHOTO,
    configuration_of,
    registry_in,
)


def ready(
    folder: Path, photo: Material | None, *, input: Input = PHOTO, adapter: str = "openai_compat", **model: Any
) -> Ready:
    registry = registry_in(folder, **{**WITH_PHOTO, "inputs": (input, INPUTS[2])})
    inputs = {**GIVEN, **({"photo": photo} if photo else {})}
    asked = StructuredRequest(prompt="test.names", inputs=inputs)
    configuration = configuration_of(adapter, **{"supports_images": True, **model})
    return make_ready(asked, registry=registry, configuration=configuration)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (GIF, "image/gif"),
        (PNG, "image/png"),
        (JPEG, "image/jpeg"),
        (WEBP, "image/webp"),
        (PDF, "application/pdf"),
        (b"PK\x03\x04\x14", "application/zip"),
        (b"RIFF are words, too", ""),
        (b"", ""),
    ],
)
def test_a_file_is_known_by_its_bytes(data: bytes, told: str) -> None:
    assert media_type_of(data) == told


def test_a_picture_stands_within_its_block(tmp_path: Path) -> None:
    made = ready(tmp_path, Material(data=PNG, origin="camera"))

    _, message = made.assembly.messages
    before, image, after = message.parts
    assert (image.kind, image.media_type, image.data) == ("image", "image/png", b64encode(PNG).decode())
    (shown, _) = made.rendered.inputs
    mark = shown.sha256[:16]
    assert before.text == f'# Photo\n\n<input name="photo" type="image/png" mark="{mark}">\n'
    assert after.text.startswith(f"</input {mark}>\n\nSo in English: <input") and after.text.endswith(">")
    # The boundary of the entry is at the end of all that stands in it.
    assert [part.cache_boundary for part in message.parts] == [False, False, True]
    told = made.manifest()["inputs"][0]
    assert (told["media_type"], told["bytes"], told["given"], told["origin"]) == ("image/png", 12, True, "camera")


def test_segments_cover_the_text_around_a_picture_and_count_it(tmp_path: Path) -> None:
    made = ready(tmp_path, Material(data=PNG))

    _, message = made.assembly.messages
    own = [segment for segment in made.assembly.segments if segment.message == 1]
    for number, part in enumerate(message.parts):
        covering = [segment for segment in own if segment.part == number]
        assert "".join(part.text[segment.start : segment.end] for segment in covering) == part.text
    (picture,) = [segment for segment in own if segment.part == 1]
    assert (picture.source, picture.source_id, picture.tokens) == (Source.USER, "photo", TOKENS_PER_IMAGE)
    (filled,) = [segment for segment in own if segment.values]
    assert (filled.part, filled.values[0].name) == (2, "language")
    value = filled.values[0]
    assert message.parts[2].text[filled.start :][value.start : value.end] == "English"


def test_other_bytes_are_another_completion(tmp_path: Path) -> None:
    keys = {
        ready(tmp_path / str(number), Material(data=data)).rendered.checkpoint_key
        for number, data in enumerate((PNG, JPEG, PNG))
    }

    assert len(keys) == 2


def test_an_optional_picture_that_is_not_given_keeps_its_name(tmp_path: Path) -> None:
    made = ready(tmp_path, None, input=replace(PHOTO, required=False), supports_images=False)

    (part,) = made.assembly.messages[1].parts
    assert '<input name="photo" type="image/*"' in part.text and ">\n \n</input" in part.text


@pytest.mark.parametrize("adapter", sorted(adapters()))
def test_every_wire_format_sends_the_picture_between_the_texts(tmp_path: Path, adapter: str) -> None:
    made = ready(tmp_path, Material(data=PNG), adapter=adapter)
    call = call_to(made.configuration.routes[0], made.configuration.parameters, (), made.expected)
    wire = adapter_of(call.provider, call.model)

    body = wire.frame(call, Transcript(wire, call, made.assembly.messages).encoded()).body

    data = b64encode(PNG)
    assert body.count(data) == 1 and b"image/png" in body
    # Ollama has a list of pictures beside the text.
    if adapter != "ollama":
        assert body.index(b"# Photo") < body.index(data) < body.index(b"So in English")


@pytest.mark.parametrize(
    ("input", "material", "said"),
    [
        (PHOTO, None, "needs the input “photo”"),
        (
            PHOTO,
            Material(data=b"No picture."),
            "is none of the pictures that can be sent; the prompt takes image/png or",
        ),
        (PHOTO, Material(data=PDF), "is application/pdf; the prompt takes image/png or image/jpeg"),
        (PHOTO, Material(data=JPEG, media_type="image/png"), "is said to be image/png, and its bytes say image/jpeg"),
        (Input(name="photo", media_type="image/png"), Material(data=JPEG), "is image/jpeg; the prompt takes image/png"),
        (Input(name="photo"), Material(data=JPEG), "is image/jpeg; the prompt takes text/plain"),
        (Input(name="photo"), Material(data=b"\xff\xfe"), "is not valid UTF-8 at byte 0"),
    ],
)
def test_what_an_input_does_not_take_is_refused(
    tmp_path: Path, input: Input, material: Material | None, said: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        ready(tmp_path, material, input=input)

    assert said in str(refused.value) and refused.value.name == "photo"


def test_a_model_that_takes_no_pictures_is_named_before_any_call(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInput, match=r"“photo” of the prompt “test\.names” is a picture, and the model Seer takes none"
    ):
        ready(tmp_path, Material(data=PNG), supports_images=False, label="Seer")

    registry = registry_in(tmp_path, **WITH_PHOTO)
    sees = configuration_of(supports_images=True)
    blind = Route(provider=sees.provider, model=LanguageModel(name="blind"))
    asked = StructuredRequest(prompt="test.names", inputs={**GIVEN, "photo": Material(data=PNG)})
    with pytest.raises(InvalidInput, match="the model blind takes none"):
        make_ready(asked, registry=registry, configuration=replace(sees, fallbacks=(blind,)))


@pytest.mark.parametrize(
    ("input", "role", "said"),
    [
        (replace(PHOTO, project=lambda data: Projected(data=data or b"")), "user", "no projection and no example"),
        (replace(PHOTO, example="photo"), "user", "no projection and no example"),
        (PHOTO, "system", "no wire format takes one in a system message"),
        (replace(PHOTO, media_type="image/svg+xml"), "user", "is neither text nor JSON nor a picture"),
    ],
)
def test_a_manifest_with_a_picture_that_can_not_be_sent_is_refused(
    tmp_path: Path, input: Input, role: Any, said: str
) -> None:
    entries = (Entry("photo.md", Tier.UNIVERSAL, role=role), Entry("task.md", Tier.LANE))
    with pytest.raises(InvalidManifest, match=said):
        registry_in(tmp_path, files=WITH_PHOTO["files"], entries=entries, inputs=(input, INPUTS[2]))
