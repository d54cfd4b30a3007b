"""The tool that hands people something to keep: a note, a file, or another type that a site registers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from llmcore.errors import ConfigurationError, ToolError
from llmcore.messages import JSON
from llmcore.tools.arguments import objections, validator_for
from llmcore.tools.base import Artifact, Tool, ToolOutput
from llmcore.tools.registry import NAME, ToolRegistry
from llmcore.tools.schema import check_parameters

GROUP = "artifacts"


@dataclass(frozen=True, kw_only=True, slots=True)
class ArtifactType:
    """A kind of artifact: its name, what a model should know of it, and the schema of its payload."""

    name: str
    description: str
    schema: dict[str, JSON]

    @property
    def line(self) -> str:
        required = self.schema.get("required", [])
        keys = [key if key in required else f"{key} (optional)" for key in self.schema.get("properties", {})]
        return f"{self.name}: {self.description} Payload: {', '.join(keys) or 'anything'}."


class ArtifactTypes:
    """The types of artifacts by name; a second one of the same name is refused."""

    def __init__(self) -> None:
        self._types: dict[str, ArtifactType] = {}
        self._validators: dict[str, Any] = {}

    def all_types(self) -> Mapping[str, ArtifactType]:
        return MappingProxyType(self._types)

    def register(self, name: str, description: str, schema: dict[str, JSON]) -> ArtifactType:
        """Add a type. Its schema is one of an object. ConfigurationError says what is wrong with it."""
        if not NAME.match(name):
            raise ConfigurationError(f"{name!r} is no name of an artifact type: letters, digits, _ and -, at most 64")
        if name in self._types:
            raise ConfigurationError(f"two artifact types are called {name!r}")
        check_parameters(schema, f"the artifact type {name!r}")
        made = ArtifactType(name=name, description=description, schema=schema)
        self._types[name] = made
        self._validators[name] = validator_for(schema)
        return made

    def artifact(self, type: str, payload: dict[str, JSON]) -> Artifact:
        """ToolError for an unknown type, or a payload that isn't one of it."""
        if type not in self._types:
            raise ToolError(f"There is no artifact type {type[:64]!r}. Types are: {', '.join(sorted(self._types))}.")
        if found := objections(self._validators[type], payload):
            lines = "\n".join(f"- /payload{line.removeprefix('the arguments')}" for line in found)
            raise ToolError(f"No artifact: the payload is no {type}.\n{lines}\n{self._types[type].line}")
        return Artifact(type=type, payload=payload)

    def tool(self) -> Tool:
        """The tool that emits artifacts of the types known now."""
        types = sorted(self._types)
        lines = "\n".join(f"- {self._types[name].line}" for name in types)
        return Tool(
            name="emit_artifact",
            description=f"Hand the user a result to keep, beside your answer. Types:\n{lines}",
            parameters=payload(
                type={"type": "string", "enum": list(types), "description": "What kind of artifact it is."},
                payload={"type": "object", "description": "Its content; the keys depend on the type."},
            ),
            run=self.emit,
            group=GROUP,
        )

    def emit(self, *, type: str, payload: dict[str, JSON]) -> ToolOutput:
        return ToolOutput(content=f"The {type} was handed over.", artifacts=(self.artifact(type, payload),))


def register_tool(registry: ToolRegistry, types: ArtifactTypes) -> Tool:
    """Make `emit_artifact` a tool of the site, once all types are known."""
    return registry.register(types.tool(), place=__name__)


def text(description: str, most: int, **more: JSON) -> dict[str, JSON]:
    return {"type": "string", "description": description, "minLength": 1, "maxLength": most, **more}


def payload(**properties: JSON) -> dict[str, JSON]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


site_artifacts = ArtifactTypes()
site_artifacts.register(
    "note",
    "a text for people.",
    payload(title=text("One line.", 200), body=text("Markdown.", 100_000)),
)
site_artifacts.register(
    "file",
    "a text file for people.",
    payload(
        name=text("With its ending, without a folder.", 200, pattern=r"^[^/\\\x00-\x1f]+$"),
        media_type=text("Such as text/csv.", 100, pattern=r"^[a-z]+/[A-Za-z0-9.+-]+$"),
        content={"type": "string", "description": "The text of the file.", "maxLength": 500_000},
    ),
)
