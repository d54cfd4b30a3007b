"""Which configurations structured completions really used, for the manifest of whoever made them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from llmcore.configuration import Configuration, Route


@dataclass(frozen=True, kw_only=True, slots=True)
class UsedConfiguration:
    """A configuration and the model of it that answered. It has no secrets: it is made of named fields only."""

    slug: str
    name: str
    version: int
    provider: str
    adapter: str
    model: str
    parameters: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, configuration: Configuration, route: Route) -> UsedConfiguration:
        parameters = configuration.parameters.to_json()
        return cls(
            slug=configuration.slug,
            name=configuration.name,
            version=configuration.version,
            provider=route.provider.slug,
            adapter=route.provider.adapter,
            model=route.model.name,
            parameters=tuple((name, value) for name, value in parameters.items() if value not in (None, [])),
        )

    def to_json(self) -> dict[str, Any]:
        kept = {name: getattr(self, name) for name in ("slug", "name", "version", "provider", "adapter", "model")}
        return {**kept, "parameters": dict(self.parameters)}


@dataclass(slots=True)
class UseRecorder:
    """Notes each configuration that was used, once. It is filled after a call, never guessed before."""

    _used: dict[tuple[str, int, str, str], UsedConfiguration] = field(default_factory=dict)

    def record(self, configuration: Configuration, route: Route) -> None:
        used = UsedConfiguration.of(configuration, route)
        self._used.setdefault((used.slug, used.version, used.provider, used.model), used)

    def used(self) -> tuple[UsedConfiguration, ...]:
        """In the order of their first use."""
        return tuple(self._used.values())
