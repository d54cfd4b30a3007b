"""What the worker decided before round 1, as far as the pages show it: where the prompt came from, the gate, limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llmcore.context.estimator import Estimator
from llmcore.prompts.assembly import Dropped, Segment
from llmcore.usage import Prices
from playground.models import Run


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """`Run.plan`, read; empty where the run has none yet. `messages` are the digests of the assembled prompt,
    `structured` is the manifest of a prompt of a pack, where it is one."""

    messages: tuple[str, ...] = ()
    segments: tuple[Segment, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    left_out: tuple[Mapping[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()
    fingerprint: str = ""
    configuration: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] | None = None
    limits: Mapping[str, Any] | None = None
    structured: Mapping[str, Any] | None = None
    estimator: Estimator = field(default_factory=Estimator)

    @property
    def context_window(self) -> int | None:
        model = (self.configuration or {}).get("model")
        return model.get("context_window") if isinstance(model, dict) else None

    @property
    def prices(self) -> Prices:
        """As they were when the run began; without a price where nothing is known of them."""
        model = (self.configuration or {}).get("model")
        return Prices.from_json(model.get("prices") or {}) if isinstance(model, dict) else Prices()

    def route_of(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Provider and model of a request with this data: those of the configuration, or of the fallback that it went
        to."""
        configuration = self.configuration or {}
        asked = (data.get("provider"), data.get("model"))
        for route in configuration.get("fallbacks") or ():
            if (route["provider"].get("slug"), route["model"].get("name")) == asked:
                return dict(route)
        return configuration

    def name_of_provider(self, slug: str) -> str:
        """How the provider was called that a run asked, its first one or a fallback's."""
        configuration = self.configuration or {}
        asked = [configuration, *(configuration.get("fallbacks") or ())]
        providers = [route["provider"] for route in asked if isinstance(route.get("provider"), dict)]
        return next(
            (str(found["name"]) for found in providers if found.get("slug") == slug and found.get("name")), slug
        )

    @property
    def provider_name(self) -> str:
        provider = (self.configuration or {}).get("provider")
        return str(provider.get("name", "")) if isinstance(provider, dict) else ""

    @property
    def files(self) -> Mapping[str, str]:
        """What the inputs of a prompt of a pack came from, a file mostly, by their names."""
        given = (self.structured or {}).get("inputs") or ()
        return {item["name"]: item.get("origin") or "" for item in given}

    def segments_of(self, message: int, digest: str) -> list[Segment]:
        """The segments of message `message` (from 0), provided it is the one that was assembled."""
        if message >= len(self.messages) or self.messages[message] != digest:
            return []
        return [segment for segment in self.segments if segment.message == message]


def read_plan(run: Run) -> Plan:
    data = run.plan
    if not data:
        return Plan()
    state, gate = data.get("state") or {}, data.get("gate") or {}
    return Plan(
        messages=tuple(state.get("messages") or ()),
        segments=tuple(Segment.from_json(item) for item in data.get("segments") or ()),
        dropped=tuple(Dropped.from_json(item) for item in data.get("dropped") or ()),
        left_out=tuple(gate.get("left_out") or ()),
        warnings=tuple(gate.get("warnings") or ()),
        offered=tuple(gate.get("offered") or ()),
        fingerprint=data.get("fingerprint") or "",
        configuration=data.get("configuration"),
        parameters=state.get("parameters"),
        limits=state.get("limits"),
        structured=data.get("structured"),
        estimator=read_estimator(run),
    )


def read_estimator(run: Run) -> Estimator:
    """What counts the tokens of the run; by a rule of thumb where it has no plan yet."""
    return Estimator.from_json((run.plan or {}).get("estimator") or {})
