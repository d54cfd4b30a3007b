"""What a tool is: a Python function or class with a name, a description, a schema, a group and an effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from llmcore.messages import JSON, ToolSpec


class Effect(StrEnum):
    """What running a tool does to the world, and so whether it may run at the same time or again."""

    READ_ONLY = "read_only"
    IDEMPOTENT_WRITE = "idempotent_write"
    NON_IDEMPOTENT_WRITE = "non_idempotent_write"


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolContext:
    """What the runtime hands to a tool that asks for it by a parameter annotated `ToolContext`.

    `user` is the acting user of the site (opaque to the runtime), `run_id` the run it belongs to, if any.
    """

    user: Any = None
    run_id: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Artifact:
    """A by-product of a tool for people; it goes to the trace only, never to the model."""

    type: str
    payload: dict[str, JSON]


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolOutput:
    """What a tool may return instead of a plain value, when it has artifacts."""

    content: Any
    artifacts: tuple[Artifact, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A registered tool. `run` takes keyword arguments that fit `parameters`; it may be async.

    `context_parameter` names the parameter that takes the `ToolContext`, if it has one. `permission` is a Django
    permission ("app.codename") that the acting user needs, "" for none. `timeout_s` bounds one execution.
    """

    name: str
    description: str
    parameters: dict[str, JSON]
    run: Callable[..., Any]
    group: str = "general"
    effect: Effect = Effect.READ_ONLY
    requires_approval: bool = False
    timeout_s: float = 30.0
    permission: str = ""
    context_parameter: str | None = None

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(name=self.name, description=self.description, parameters=self.parameters)
