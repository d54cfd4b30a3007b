"""What a server lists: the definitions of its tools, each checked as what it is, the word of a stranger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from llmcore.errors import ConfigurationError
from llmcore.messages import JSON, digest_of
from llmcore.redaction.values import storable
from llmcore.tools.mcp.schemas import checked_schema

MAX_TOOLS = 200
MAX_NAME_CHARS = 128
MAX_TITLE_CHARS = 200
MAX_DESCRIPTION_CHARS = 10_000
MAX_LISTING_BYTES = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Definition:
    """A tool as a server defines it. `reads_only` is its claim, which is worth nothing unless somebody trusts it."""

    name: str
    description: str
    parameters: dict[str, JSON]
    title: str = ""
    reads_only: bool = False

    @property
    def told(self) -> str:
        """What a model is told of it."""
        return self.description or self.title or self.name

    @property
    def digest(self) -> str:
        """What tells it from any other definition, however small the difference."""
        return digest_of(self.to_json())

    def to_json(self) -> dict[str, JSON]:
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "parameters": self.parameters,
            "reads_only": self.reads_only,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**data)


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """A listed tool that can't be offered, and why."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """The tools that a server listed, in its order, and those of them that can't be used."""

    definitions: tuple[Definition, ...] = ()
    refused: tuple[Refused, ...] = ()


def read_listing(tools: Iterable[Mapping[str, Any]]) -> Listing:
    """The listing of the JSON of a server's tools. What can't be used is told, never mended in silence."""
    definitions: dict[str, Definition] = {}
    refused: list[Refused] = []
    size = 0
    for count, tool in enumerate(tools, start=1):
        name = str(storable(str(tool.get("name", ""))))[:MAX_NAME_CHARS]
        try:
            if count > MAX_TOOLS:
                raise ConfigurationError(f"the server lists more than {MAX_TOOLS} tools")
            definition = definition_of(tool)
            size += len(str(definition.parameters)) + len(definition.description)
            if size > MAX_LISTING_BYTES:
                raise ConfigurationError(f"the tools before it have more than {MAX_LISTING_BYTES:,} bytes together")
            if definition.name in definitions:
                raise ConfigurationError("the server lists two tools of this name")
        except ConfigurationError as error:
            refused.append(Refused(name=name, reason=str(error)))
            if count > MAX_TOOLS:
                break
            continue
        definitions[definition.name] = definition
    return Listing(definitions=tuple(definitions.values()), refused=tuple(refused))


def definition_of(tool: Mapping[str, Any]) -> Definition:
    """ConfigurationError says why the tool can't be used."""
    name, description = tool.get("name"), tool.get("description") or ""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise ConfigurationError("its name is empty or can't be shown")
    if len(name) > MAX_NAME_CHARS:
        raise ConfigurationError(f"its name has more than {MAX_NAME_CHARS} characters")
    if not isinstance(description, str) or len(description) > MAX_DESCRIPTION_CHARS:
        raise ConfigurationError(f"its description has more than {MAX_DESCRIPTION_CHARS:,} characters")
    parameters = checked_schema(storable(tool.get("inputSchema")))
    hints = tool.get("annotations") or {}
    title = tool.get("title") or hints.get("title") or ""
    return Definition(
        name=name,
        title=str(storable(str(title)))[:MAX_TITLE_CHARS],
        description=str(storable(description)),
        parameters=parameters,
        reads_only=hints.get("readOnlyHint") is True,
    )
