"""Prompt packs: the prompts and response schemas that the apps of a site register, under a prefix for each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from llmcore.configuration import sha256_of_text
from llmcore.errors import (
    ConflictingPath,
    InvalidManifest,
    InvalidRoot,
    MissingContent,
    MissingSchema,
    UnknownPrompt,
)
from llmcore.messages import JSON, digest_of
from llmcore.prompts.variables import fill, is_name
from llmcore.structured.files import read_file
from llmcore.structured.inputs import JSON_TYPE, Input
from llmcore.structured.response_schema import ResponseSchema
from llmcore.structured.schemas import read_schema, schema_of_type

PREFIX = re.compile(r"[a-z][a-z0-9_-]{0,39}")
NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
MAX_ENTRIES = 50


class Tier(StrEnum):
    """How long a piece of a prompt stays the same. Prompts go from the first to the last, so that a request reads as
    much as possible of its prefix from the cache."""

    UNIVERSAL = "universal"  # the same for all prompts of a pack
    RUN = "run"  # the same for all prompts of one run or campaign
    LANE = "lane"  # the same for all calls of one prompt
    TAIL = "tail"  # another one in each call


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of a prompt: a file of its pack, or of another one as `prefix:path`.

    `boundary` says whether a cache boundary stands at its end; `None` for the usual place, the end of each tier but the
    last.
    """

    path: str
    tier: Tier
    role: Literal["system", "user"] = "user"
    boundary: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MountedEntry:
    """An entry with its file, under the path that it has among those of all packs."""

    path: str
    tier: Tier
    role: Literal["system", "user"]
    boundary: bool
    text: str
    sha256: str

    def to_json(self) -> dict[str, JSON]:
        kept = {"path": self.path, "tier": self.tier.value, "role": self.role}
        return {**kept, "boundary": self.boundary, "sha256": self.sha256}


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """A registered prompt. `entries` is its manifest: what is mounted, sent and fingerprinted, in this order.

    `variables` maps each to its default, `None` where it has to be given. `departs` says why the tiers are in another
    order than usual. `configuration` is the slug of the one that it is made for, empty where any will do.
    """

    id: str
    title: str
    description: str
    entries: tuple[MountedEntry, ...]
    inputs: tuple[Input, ...]
    variables: Mapping[str, str | None]
    schema: ResponseSchema | None
    configuration: str = ""
    departs: str = ""

    @property
    def pack(self) -> str:
        """The prefix of its pack."""
        return self.id.partition(".")[0]

    @property
    def fingerprint(self) -> str:
        """SHA-256 over its identity and manifest."""
        return digest_of({"prompt": self.id, "entries": [entry.to_json() for entry in self.entries]})


@dataclass(frozen=True, kw_only=True, slots=True)
class Pack:
    """The folder of an app's prompts, under its prefix."""

    prefix: str
    root: Path
    registry: PromptRegistry = field(repr=False)

    def schema(self, name: str, source: str | type) -> ResponseSchema:
        """Register the JSON Schema in a file, or that of a dataclass or TypedDict, as `prefix.name`."""
        return self.registry.add_schema(self, name, source)

    def prompt(
        self,
        name: str,
        *,
        title: str,
        entries: Sequence[Entry],
        inputs: Sequence[Input] = (),
        variables: Mapping[str, str | None] | None = None,
        schema: str = "",
        description: str = "",
        configuration: str = "",
        departs: str = "",
    ) -> Prompt:
        """Register the prompt `prefix.name`, whose answers fit `schema` (a name in this pack, or `prefix.name`)."""
        return self.registry.add_prompt(
            self,
            name,
            title=title,
            description=description,
            entries=entries,
            inputs=tuple(inputs),
            variables=dict(variables or {}),
            schema=schema,
            configuration=configuration,
            departs=departs,
        )


class PromptRegistry:
    """All packs of a site. Files are read when they are registered, so a mistake shows at start."""

    def __init__(self) -> None:
        self._packs: dict[str, Pack] = {}
        self._prompts: dict[str, Prompt] = {}
        self._schemas: dict[str, ResponseSchema] = {}
        self._mounted: dict[str, str] = {}

    def pack(self, prefix: str, root: Path | str) -> Pack:
        """A new pack; InvalidRoot for a prefix or folder that can't be used, ConflictingPath for a prefix in use."""
        if not PREFIX.fullmatch(prefix):
            raise InvalidRoot(f"“{prefix}” is no prefix of a pack: lower-case letters, digits, - and _, at most 40.")
        folder = Path(root)
        if not folder.is_absolute() or not folder.is_dir():
            raise InvalidRoot(f"The pack “{prefix}” needs the absolute path of a folder that exists, not “{root}”.")
        if prefix in self._packs:
            raise ConflictingPath(f"Two packs are called “{prefix}”: in {self._packs[prefix].root} and in {folder}.")
        pack = Pack(prefix=prefix, root=folder.resolve(), registry=self)
        self._packs[prefix] = pack
        return pack

    def prompts(self) -> Mapping[str, Prompt]:
        """All prompts by their names."""
        return MappingProxyType(self._prompts)

    def mounted(self) -> Mapping[str, str]:
        """The paths of all files that prompts use, each with its digest."""
        return MappingProxyType(self._mounted)

    def prompt(self, id: str) -> Prompt:
        try:
            return self._prompts[id]
        except KeyError:
            known = ", ".join(sorted(self._prompts)) or "none"
            raise UnknownPrompt(f"There is no prompt “{id}”. Known are: {known}.") from None

    def schema(self, id: str) -> ResponseSchema:
        try:
            return self._schemas[id]
        except KeyError:
            raise MissingSchema(f"There is no response schema “{id}”.") from None

    def add_schema(self, pack: Pack, name: str, source: str | type) -> ResponseSchema:
        id = self._id(pack, name)
        if id in self._schemas:
            raise ConflictingPath(f"Two response schemas are called “{id}”.")
        if not isinstance(source, str):
            return self._schemas.setdefault(id, schema_of_type(source, id))
        try:
            data = read_file(pack.root, source, f"the schema “{id}”")
        except MissingContent as error:
            raise MissingSchema(str(error)) from None
        return self._schemas.setdefault(id, read_schema(id, data))

    def add_prompt(
        self,
        pack: Pack,
        name: str,
        *,
        title: str,
        description: str,
        entries: Sequence[Entry],
        inputs: tuple[Input, ...],
        variables: dict[str, str | None],
        schema: str,
        configuration: str,
        departs: str,
    ) -> Prompt:
        id = self._id(pack, name)
        if id in self._prompts:
            raise ConflictingPath(f"Two prompts are called “{id}”.")
        mounted = tuple(self._mount(pack, entry, entries, id) for entry in entries)
        check_manifest(id, mounted, inputs, variables, departs=departs)
        try:
            fits = self.schema(schema if "." in schema else f"{pack.prefix}.{schema}") if schema else None
        except MissingSchema as error:
            raise MissingSchema(f"The prompt “{id}” can't be registered. {error}") from None
        prompt = Prompt(
            id=id,
            title=title,
            description=description,
            entries=mounted,
            inputs=inputs,
            variables=MappingProxyType(variables),
            schema=fits,
            configuration=configuration,
            departs=departs,
        )
        self._mounted |= {entry.path: entry.sha256 for entry in mounted}
        self._prompts[id] = prompt
        return prompt

    def _id(self, pack: Pack, name: str) -> str:
        if not NAME.fullmatch(name):
            raise InvalidManifest(f"“{name}” is no name in a pack: lower-case letters, digits and _, at most 60.")
        return f"{pack.prefix}.{name}"

    def _mount(self, pack: Pack, entry: Entry, entries: Sequence[Entry], id: str) -> MountedEntry:
        prefix, colon, path = entry.path.rpartition(":")
        owner = self._packs.get(prefix) if colon else pack
        if owner is None:
            raise InvalidRoot(f"The prompt “{id}” takes “{path}” from a pack “{prefix}” that isn't registered yet.")
        data = read_file(owner.root, path, f"the prompt “{id}”")
        try:
            text = data.decode("utf-8").replace("\r\n", "\n").strip("\n")
        except UnicodeDecodeError:
            raise MissingContent(f"“{path}” of the prompt “{id}” is not valid UTF-8.") from None
        if not text.strip():
            raise MissingContent(f"“{path}” of the prompt “{id}” is empty.")
        place, digest = f"{owner.prefix}/{path}", sha256_of_text(text)
        if self._mounted.get(place, digest) != digest:
            raise ConflictingPath(f"“{place}” has changed since another prompt was registered with it.")
        return MountedEntry(
            path=place,
            tier=entry.tier,
            role=entry.role,
            boundary=_ends_tier(entry, entries) if entry.boundary is None else entry.boundary,
            text=text,
            sha256=digest,
        )


def _ends_tier(entry: Entry, entries: Sequence[Entry]) -> bool:
    last = [other for other in entries if other.tier is entry.tier][-1]
    return entry is last and entry.tier is not Tier.TAIL


def check_manifest(
    id: str,
    entries: Sequence[MountedEntry],
    inputs: Sequence[Input],
    variables: Mapping[str, str | None],
    *,
    departs: str,
) -> None:
    """InvalidManifest says what doesn't fit together."""
    if not 0 < len(entries) <= MAX_ENTRIES or all(entry.role == "system" for entry in entries):
        raise InvalidManifest(f"The prompt “{id}” needs 1 to {MAX_ENTRIES} entries, and one of the user's among them.")
    paths = [entry.path for entry in entries]
    if twice := [path for path in paths if paths.count(path) > 1]:
        raise ConflictingPath(f"The prompt “{id}” has the file “{twice[0]}” twice.")
    order = list(Tier)
    if not departs and any(order.index(a.tier) > order.index(b.tier) for a, b in pairwise(entries)):
        raise InvalidManifest(
            f"The prompt “{id}” has its tiers in another order than {', '.join(order)}; say with `departs` why."
        )
    declared = [*(input.name for input in inputs), *variables]
    for name in declared:
        if not is_name(name) or declared.count(name) > 1:
            raise InvalidManifest(f"The prompt “{id}” can't have an input or variable “{name}”: no name, or twice.")
    for input in inputs:
        _check_media_type(id, input, entries)
    placed = [name for entry in entries for name in fill(entry.text, {}).names]
    if stray := sorted(set(placed) - set(declared)):
        raise InvalidManifest(f"The files of the prompt “{id}” place what it doesn't declare: {', '.join(stray)}.")
    if unplaced := [name for name in declared if name not in placed]:
        raise InvalidManifest(f"The prompt “{id}” declares what its files don't place: {', '.join(unplaced)}.")


def _check_media_type(id: str, input: Input, entries: Sequence[MountedEntry]) -> None:
    named = f"The input “{input.name}” of the prompt “{id}”"
    if input.is_image:
        if input.project or input.example:
            raise InvalidManifest(f"{named} is a picture: it has no projection and no example.")
        if any(entry.role == "system" and input.name in fill(entry.text, {}).names for entry in entries):
            raise InvalidManifest(f"{named} is a picture: no wire format takes one in a system message.")
    elif input.media_type != JSON_TYPE and not re.fullmatch(r"text/[a-z0-9.+-]+", input.media_type):
        raise InvalidManifest(f"{named} is neither text nor JSON nor a picture.")


site_prompts = PromptRegistry()
