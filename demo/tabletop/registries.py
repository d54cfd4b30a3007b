"""What prompts show of a campaign's registries: names. The whole of them goes to the manifest, by digest and count."""

from __future__ import annotations

from typing import Any

from llmcore.configuration import sha256_of_text
from llmcore.messages import canonical_json
from llmcore.structured.inputs import Projected
from llmcore.structured.validation import read_answer

NPC_FIELDS = frozenset({"id", "name", "aliases", "description"})
SPELL_FIELDS = frozenset({"id", "name", "description"})


def npc_names(data: bytes | None) -> Projected:
    """`{"npcs":[names]}` of a registry of non-player characters; `{"npcs":[]}` without one."""
    if data is None:
        return Projected(data=b'{"npcs":[]}')
    return projection(data, "npcs", shown="npcs", fields=NPC_FIELDS)


def spell_names(data: bytes | None) -> Projected:
    """`{"spell_names":[names]}` of a catalog of spells."""
    return projection(data or b"", "spells", shown="spell_names", fields=SPELL_FIELDS)


def projection(data: bytes, name: str, *, shown: str, fields: frozenset[str]) -> Projected:
    """The sorted names of a registry, under `shown`; ValueError where it is none."""
    registry = read_answer(data.decode("utf-8"))
    if not isinstance(registry, dict) or set(registry) != {name} or not isinstance(registry[name], list):
        raise ValueError(f'it has to be {{"{name}": [...]}}')
    entries = [checked_entry(entry, fields, f"/{name}/{index}") for index, entry in enumerate(registry[name])]
    refuse_doubles([entry["id"] for entry in entries], "id")
    refuse_doubles([entry["name"].casefold() for entry in entries], "name")
    names = sorted(entry["name"] for entry in entries)
    return Projected(
        data=canonical_json({shown: names}).encode(),
        provenance={"sha256": sha256_of_text(canonical_json(registry)), "count": len(entries)},
    )


def checked_entry(entry: Any, fields: frozenset[str], pointer: str) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise ValueError(f"{pointer} is no object")
    if unknown := sorted(set(entry) - fields):
        raise ValueError(f"{pointer} has an unknown member {unknown[0]!r}")
    for name in ("id", "name"):
        if not isinstance(entry.get(name), str) or not entry[name].strip():
            raise ValueError(f"{pointer}/{name} has to be a text")
    return entry


def refuse_doubles(values: list[str], what: str) -> None:
    if len(set(values)) < len(values):
        raise ValueError(f"two entries have the same {what}")
