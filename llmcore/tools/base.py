"""What a tool is: a Python function or class with a name, a description, a schema, a group and an effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self

from llmcore.messages import JSON, ToolSpec
from llmcore.tools.resources import RunResources
from llmcore.tools.workspace.workspace import Workspace


class Effect(StrEnum):
    """What running a tool does to the world, and so whether it may run at the same time or again."""

    READ_ONLY = "read_only"
    IDEMPOTENT_WRITE = "idempotent_write"
    NON_IDEMPOTENT_WRITE = "non_idempotent_write"


class ActionKind(StrEnum):
    """What there is to look at before an action is decided about."""

    COMMAND = "command"
    FILE_CHANGE = "file_change"
    CALL = "call"


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """What a call that needs approval would do: all that a decider must see, and all that its execution is held to.

    `title` says it in one line. Of a command, `argv` are the words exactly as the system gets them, and `command` is
    the line that a shell reads where `shell` says so, else the words, quoted. Of a file change, `path` is relative to
    `directory`, `diff` is unified, `before_sha256` is the digest of the file's bytes (`None`: there is no such file)
    and `after_sha256` of those it would have. `directory`, absolute, is where it happens, `timeout_s` how long it may
    take where the call says so itself.
    """

    kind: ActionKind
    title: str
    command: str = ""
    argv: tuple[str, ...] = ()
    shell: bool = False
    directory: str = ""
    path: str = ""
    diff: str = ""
    before_sha256: str | None = None
    after_sha256: str | None = None
    timeout_s: float | None = None

    def to_json(self) -> dict[str, JSON]:
        return {**asdict(self), "kind": self.kind.value, "argv": list(self.argv)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**{**data, "kind": ActionKind(data["kind"]), "argv": tuple(data["argv"])})


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolContext:
    """What the runtime hands to a tool that asks for it by a parameter annotated `ToolContext`.

    `user` is the acting user of the site (opaque to the runtime), `run_id` the run it belongs to, if any,
    `configuration` that one's slug, `workspace` the folder it works in. `approved` is the action as it was approved,
    by a person or a rule, where the call needed that: the tool does exactly this, or refuses. `resources` are what the
    run's tools keep open between their calls; `None` outside a run.
    """

    user: Any = None
    run_id: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    configuration: str = ""
    workspace: Workspace | None = None
    approved: Action | None = None
    resources: RunResources | None = None


# Why a call with these arguments needs approval, as a sentence; `None` if it doesn't. ToolError where it can't be run.
ApprovalRule = Callable[[Mapping[str, JSON], ToolContext], str | None]


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
    `requires_approval` holds for each call, or is the rule that decides by the call's arguments. `describe_action`
    makes what the decider sees; it reads, and may block. `off_because` is a sentence on why nobody can use the tool
    in a context of a run, before it is called; `None` where it can be used. `replaced` says by what its calls are
    answered in place of running it ("recorded", "typed"); empty where it runs.
    """

    name: str
    description: str
    parameters: dict[str, JSON]
    run: Callable[..., Any]
    group: str = "general"
    effect: Effect = Effect.READ_ONLY
    requires_approval: bool | ApprovalRule = False
    timeout_s: float = 30.0
    permission: str = ""
    context_parameter: str | None = None
    describe_action: Callable[[Mapping[str, JSON], ToolContext], Action] | None = None
    off_because: Callable[[ToolContext], str | None] | None = None
    replaced: str = ""

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(name=self.name, description=self.description, parameters=self.parameters)

    def needs_approval(self, arguments: Mapping[str, JSON], context: ToolContext) -> str | None:
        """Why this call, whose arguments fit the schema, needs a person's approval; `None` if it doesn't.

        ToolError says why it can't be run at all.
        """
        if callable(self.requires_approval):
            return self.requires_approval(arguments, context)
        return f"Each call of {self.name} needs approval." if self.requires_approval else None

    def action(self, arguments: Mapping[str, JSON], context: ToolContext) -> Action:
        """What this call would do, to be shown to a decider. ToolError says why it can't be run at all."""
        if self.describe_action is not None:
            return self.describe_action(arguments, context)
        return Action(kind=ActionKind.CALL, title=f"Call {self.name}")
