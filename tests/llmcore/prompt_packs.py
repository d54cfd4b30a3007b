"""A prompt pack for tests: a folder of files, and a registry with a prompt made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from llmcore.configuration import Configuration, LanguageModel, Provider
from llmcore.structured.inputs import JSON_TYPE, Input, Material, Projected
from llmcore.structured.media import ANY_IMAGE
from llmcore.structured.packs import Entry, Prompt, PromptRegistry, Tier

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Names",
    "type": "object",
    "properties": {
        "names": {"type": "array", "items": {"type": "string", "minLength": 1}},
        "count": {"type": "integer", "minimum": 0},
        "note": {"type": ["string", "null"]},
    },
    "required": ["names", "count"],
    "additionalProperties": False,
}
FILES = {
    "system.md": "You find names.",
    "context.md": "# Context\n\n{{context}}",
    "known.md": "# Known\n\n{{known}}",
    "task.md": "Find all names, in {{language}}.",
    "text.md": "# Text\n\n{{text}}",
    "names.json": json.dumps(SCHEMA),
}
ENTRIES = (
    Entry("system.md", Tier.UNIVERSAL, role="system"),
    Entry("context.md", Tier.RUN),
    Entry("known.md", Tier.LANE),
    Entry("task.md", Tier.LANE),
    Entry("text.md", Tier.TAIL),
)


def names_only(data: bytes | None) -> Projected:
    if data is None:
        return Projected(data=b'{"known":[]}')
    names = sorted(entry["name"] for entry in json.loads(data)["known"])
    return Projected(data=json.dumps({"known": names}).encode(), provenance={"count": len(names)})


INPUTS = (
    Input(name="context", required=False),
    Input(name="known", media_type=JSON_TYPE, required=False, project=names_only),
    Input(name="text"),
)
GIVEN = {"text": Material(data=b"Ada met Grace.")}
# The beginnings of files, by which they are known.
GIF = b"GIF89a\x01\x00\x01\x00\x00\x00\x00;"
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"
JPEG, WEBP, PDF = b"\xff\xd8\xff\xe0\x00\x10JFIF", b"RIFF\x04\x00\x00\x00WEBP", b"%PDF-1.7\n"
# What makes of the prompt one with a picture and a text.
PHOTO = Input(name="photo", media_type=ANY_IMAGE)
WITH_PHOTO: dict[str, Any] = {
    "files": {**FILES, "photo.md": "# Photo\n\n{{photo}}\n\nSo in {{language}}: {{text}}"},
    "entries": (Entry("system.md", Tier.UNIVERSAL, role="system"), Entry("photo.md", Tier.LANE, boundary=True)),
    "inputs": (PHOTO, INPUTS[2]),
}
VALID = '{"names": ["Ada", "Grace"], "count": 2, "note": null}'
INVALID = '{"names": ["Ada", ""], "count": "2", "extra": 1}'


def write_files(folder: Path, files: dict[str, str] = FILES) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def registry_in(folder: Path, *, files: dict[str, str] = FILES, **prompt: Any) -> PromptRegistry:
    """A registry with the pack `test` and its prompt `test.names`."""
    registry = PromptRegistry()
    pack = registry.pack("test", write_files(folder, files))
    pack.schema("names", "names.json")
    settings: dict[str, Any] = {
        "title": "Names",
        "entries": ENTRIES,
        "inputs": INPUTS,
        "variables": {"language": "English"},
        "schema": "names",
    }
    pack.prompt("names", **{**settings, **prompt})
    return registry


def prompt_in(folder: Path, **changes: Any) -> Prompt:
    return registry_in(folder, **changes).prompt("test.names")


def configuration_of(adapter: str = "openai_compat", *, url: str = "http://127.0.0.1:9", **model: Any) -> Configuration:
    return Configuration(
        slug="extraction",
        name="Extraction",
        provider=Provider(slug="p", name="P", adapter=adapter, base_url=url, allow_private_hosts=True, max_attempts=1),
        model=LanguageModel(**{"name": "scripted", **model}),
    )
