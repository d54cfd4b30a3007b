"""Prompt packs and response schemas: what is registered, what is refused, and what identifies it (J5)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llmcore.errors import (
    ConflictingPath,
    InvalidManifest,
    InvalidRoot,
    InvalidSchemaJSON,
    InvalidSchemaMetadata,
    MissingContent,
    MissingSchema,
    UnknownPrompt,
)
from llmcore.structured.inputs import Input
from llmcore.structured.packs import Entry, PromptRegistry, Tier
from llmcore.structured.schemas import checked_schema, read_schema
from tests.llmcore.prompt_packs import ENTRIES, FILES, INPUTS, SCHEMA, prompt_in, registry_in, write_files


def test_a_manifest_is_what_is_mounted_sent_and_fingerprinted(tmp_path: Path) -> None:
    write_files(tmp_path, {"unused.md": "Nobody asks for me."})
    registry = registry_in(tmp_path)
    prompt = registry.prompt("test.names")

    assert [entry.path for entry in prompt.entries] == [f"test/{entry.path}" for entry in ENTRIES]
    assert dict(registry.mounted()) == {entry.path: entry.sha256 for entry in prompt.entries}


def test_a_cache_boundary_ends_each_tier_but_the_last(tmp_path: Path) -> None:
    assert [entry.boundary for entry in prompt_in(tmp_path).entries] == [True, True, False, True, False]


def test_a_manifest_may_set_its_boundaries_itself(tmp_path: Path) -> None:
    entries = [*ENTRIES]
    entries[0] = Entry("system.md", Tier.UNIVERSAL, role="system", boundary=False)
    entries[2] = Entry("known.md", Tier.LANE, boundary=True)

    prompt = prompt_in(tmp_path, entries=entries)

    assert [entry.boundary for entry in prompt.entries] == [False, True, True, True, False]


@pytest.mark.parametrize("change", ["text", "order", "role", "boundary", "name"])
def test_a_fingerprint_changes_with_each_part_of_the_manifest(tmp_path: Path, change: str) -> None:
    before = prompt_in(tmp_path / "a").fingerprint
    entries, files = [*ENTRIES], dict(FILES)
    if change == "text":
        files["task.md"] += " All of them."
    elif change == "order":
        entries[2], entries[3] = entries[3], entries[2]
    elif change == "role":
        entries[1] = Entry("context.md", Tier.RUN, role="system")
    elif change == "boundary":
        entries[2] = Entry("known.md", Tier.LANE, boundary=True)
    if change == "name":
        files["again.md"] = files.pop("system.md")
        entries[0] = Entry("again.md", Tier.UNIVERSAL, role="system")

    assert prompt_in(tmp_path / "b", files=files, entries=entries).fingerprint != before
    assert prompt_in(tmp_path / "c", title="Other words for people", configuration="any").fingerprint == before


def test_a_pack_takes_shared_files_from_another(tmp_path: Path) -> None:
    registry = registry_in(tmp_path / "shared")
    other = registry.pack("other", write_files(tmp_path / "other", {"task.md": "Count {{text}}."}))

    prompt = other.prompt(
        "count",
        title="Count",
        entries=(Entry("test:system.md", Tier.UNIVERSAL, role="system"), Entry("task.md", Tier.TAIL)),
        inputs=(Input(name="text"),),
        schema="test.names",
    )

    assert [entry.path for entry in prompt.entries] == ["test/system.md", "other/task.md"]
    assert prompt.schema == registry.schema("test.names")


@pytest.mark.parametrize("prefix", ["", "Test", "a/b", "..", "a" * 41])
def test_a_prefix_that_is_none_is_refused(tmp_path: Path, prefix: str) -> None:
    with pytest.raises(InvalidRoot, match="no prefix"):
        PromptRegistry().pack(prefix, tmp_path)


@pytest.mark.parametrize("root", ["missing", "file.md", "relative"])
def test_a_root_that_is_no_folder_is_refused(tmp_path: Path, root: str) -> None:
    (tmp_path / "file.md").write_text("Hello.")
    path = Path("tests") if root == "relative" else tmp_path / root

    with pytest.raises(InvalidRoot, match="absolute path of a folder"):
        PromptRegistry().pack("test", path)


@pytest.mark.parametrize("path", ["../secret.md", "/etc/hostname", "a/../../secret.md", "./system.md", "link.md"])
def test_a_path_that_leaves_its_root_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret.md").write_text("Not yours: {{text}}")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "link.md").symlink_to(tmp_path / "secret.md")

    with pytest.raises(InvalidRoot, match="folder of its pack"):
        registry_in(tmp_path / "pack", entries=(Entry(path, Tier.TAIL),))


@pytest.mark.parametrize(("name", "text"), [("gone.md", None), ("blank.md", " \n"), ("folder.md/x", "x")])
def test_missing_content_is_named(tmp_path: Path, name: str, text: str | None) -> None:
    if text is not None:
        write_files(tmp_path, {name: text})
    entry = Entry(name.partition("/")[0], Tier.UNIVERSAL)

    with pytest.raises(MissingContent, match=entry.path):
        registry_in(tmp_path, entries=(entry, *ENTRIES[1:]))


def test_content_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes.md").write_bytes(b"\xff\xfe")
    with pytest.raises(MissingContent, match="UTF-8"):
        registry_in(tmp_path, entries=(Entry("bytes.md", Tier.UNIVERSAL), *ENTRIES[1:]))


def test_registrations_that_conflict_are_refused(tmp_path: Path) -> None:
    registry = registry_in(tmp_path)
    pack = registry._packs["test"]
    with pytest.raises(ConflictingPath, match="Two packs"):
        registry.pack("test", tmp_path)
    with pytest.raises(ConflictingPath, match="Two response schemas"):
        pack.schema("names", "names.json")
    with pytest.raises(ConflictingPath, match="Two prompts"):
        pack.prompt("names", title="Again", entries=ENTRIES, inputs=INPUTS, variables={"language": None})
    with pytest.raises(ConflictingPath, match="twice"):
        pack.prompt("twice", title="Twice", entries=(ENTRIES[4], ENTRIES[4]), inputs=INPUTS[2:])
    (tmp_path / "system.md").write_text("You find other names.")
    with pytest.raises(ConflictingPath, match="has changed"):
        pack.prompt("later", title="Later", entries=(ENTRIES[0], ENTRIES[4]), inputs=INPUTS[2:])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"entries": ENTRIES[:1], "inputs": (), "variables": {}}, "one of the user's"),
        (
            {"entries": (*ENTRIES[3:], ENTRIES[0]), "inputs": INPUTS[2:]},
            "order than universal, run, lane, tail",
        ),
        ({"inputs": INPUTS[:2]}, "doesn't declare: text"),
        ({"inputs": (*INPUTS, Input(name="more"))}, "don't place: more"),
        ({"variables": {"language": None, "text": None}}, "“text”: no name, or twice"),
        ({"inputs": (*INPUTS[:2], Input(name="text", media_type="audio/ogg"))}, "neither text nor JSON"),
    ],
)
def test_a_manifest_that_does_not_fit_together_is_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidManifest, match=said):
        registry_in(tmp_path, **changes)


def test_another_order_of_tiers_needs_a_reason(tmp_path: Path) -> None:
    entries = (ENTRIES[0], ENTRIES[4], ENTRIES[3])
    prompt = prompt_in(tmp_path, entries=entries, inputs=INPUTS[2:], departs="The text is read again and again.")

    assert prompt.departs == "The text is read again and again."


def test_what_is_not_registered_is_named(tmp_path: Path) -> None:
    registry = registry_in(tmp_path)
    with pytest.raises(UnknownPrompt, match=r"“test.nams”. Known are: test.names"):
        registry.prompt("test.nams")
    with pytest.raises(MissingSchema, match=r"“test\.nams”"):
        registry.schema("test.nams")
    with pytest.raises(MissingSchema, match=r"gone\.json"):
        registry._packs["test"].schema("gone", "gone.json")
    with pytest.raises(MissingSchema, match=r"“test\.names”.*“test\.gone”"):
        registry_in(tmp_path, schema="gone")


# Schemas


def test_a_schema_has_an_identity_and_a_digest_of_what_it_says(tmp_path: Path) -> None:
    schema = registry_in(tmp_path).schema("test.names")
    spaced = read_schema("test.names", json.dumps(SCHEMA, indent=4).encode())

    assert spaced == schema
    assert list(schema.json["properties"]) == ["names", "count", "note"]
    turned = {**SCHEMA, "properties": dict(reversed(SCHEMA["properties"].items()))}
    # The order of its members is the order in which a model writes them.
    assert checked_schema("test.names", turned).sha256 != schema.sha256


def test_a_schema_gives_copies_of_itself_only(tmp_path: Path) -> None:
    schema = registry_in(tmp_path).schema("test.names")
    digest = schema.sha256

    schema.json["properties"].clear()

    assert schema.json == SCHEMA and schema.sha256 == digest


def test_diagnostics_say_nothing_of_what_is_in_a_schema(tmp_path: Path) -> None:
    schema = registry_in(tmp_path).schema("test.names")

    assert schema.diagnostics() == {"id": "test.names", "sha256": schema.sha256, "bytes": len(schema.text)}


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b'{"type": "object", "secret_word"}', InvalidSchemaJSON),
        (b'{"type": "object", "description": "secret_word\xff"}', InvalidSchemaJSON),
        (b"[" * 5_000 + b'"secret_word"' + b"]" * 5_000, InvalidSchemaJSON),
        (b'["secret_word"]', InvalidSchemaMetadata),
        (b'{"type": "array", "description": "secret_word"}', InvalidSchemaMetadata),
        (b'{"type": "object", "$schema": "https://example.com/secret_word"}', InvalidSchemaMetadata),
        (b'{"type": "object", "$id": "secret_word"}', InvalidSchemaMetadata),
        (b'{"type": "object", "properties": {"a": {"type": "secret_word"}}}', InvalidSchemaMetadata),
        (
            b'{"type": "object", "properties": {"a": {"$ref": "https://a.example/secret_word"}}}',
            InvalidSchemaMetadata,
        ),
        (b'{"type": "object", "properties": {"a": {"$ref": "#/$defs/secret_word"}}}', InvalidSchemaMetadata),
        (b'{"type": "object", "properties": {"a": {"$id": "secret_word"}}}', InvalidSchemaMetadata),
        (b'{"type": "object", "properties": {"a": {"pattern": "(secret_word"}}}', InvalidSchemaMetadata),
        (b'{"type": "object", "unevaluatedProperties": false, "title": "secret_word"}', InvalidSchemaMetadata),
        (b'{"type": "object", "title": "secret_word' + b"x" * 500_000 + b'"}', InvalidSchemaMetadata),
    ],
)
def test_a_schema_that_can_not_be_used_is_refused_without_being_quoted(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        read_schema("test.names", data)

    assert type(raised.value) is error and "test.names" in str(raised.value)
    assert "secret_word" not in str(raised.value)
    assert raised.value.__cause__ is None
