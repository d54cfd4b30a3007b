"""Which tools a run may call: computed once per run, with the reason for each tool that was left out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from llmcore.configuration import Configuration, Skill
from llmcore.tools.base import Tool, ToolContext


class LeftOutReason(StrEnum):
    """Why a tool isn't offered: the first rule that it fails, in this order."""

    UNKNOWN = "unknown"
    NOT_REQUESTED = "not_requested"
    DISABLED = "disabled"
    GROUP_DISABLED = "group_disabled"
    NOT_IN_CONFIGURATION = "not_in_configuration"
    NOT_IN_SKILLS = "not_in_skills"
    NO_PERMISSION = "no_permission"
    OFF_HERE = "off_here"
    MODEL_WITHOUT_TOOLS = "model_without_tools"


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """A tool that is not offered, with the reason and, in `detail`, the reason in words."""

    name: str
    reason: LeftOutReason
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """The tools that a run may call, sorted by name so that the prompt's prefix is stable, and those left out."""

    offered: tuple[Tool, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.offered)

    def to_json(self) -> dict[str, Any]:
        return {
            "offered": list(self.names),
            "left_out": [{**asdict(item), "reason": item.reason.value} for item in self.left_out],
            "warnings": list(self.warnings),
        }


def decide_gate(
    *,
    registry: Mapping[str, Tool],
    requested: Sequence[str] | None,
    configuration: Configuration,
    skills: Sequence[Skill],
    disabled_tools: Collection[str],
    disabled_groups: Collection[str],
    permitted: Callable[[Tool], bool],
    context: ToolContext,
) -> Gate:
    """`requested` is `None` where a run names no tools (then the configuration's set), empty for none at all.

    `skills` are those really injected, `permitted` says whether the acting user may use a tool, `context` is what the
    run's tools will get.
    """
    if requested is None:
        requested = configuration.tools
    allowed, warnings = _allowed_by_skills(skills, registry)

    def objection(tool: Tool) -> tuple[LeftOutReason, str] | None:
        if requested is not None and tool.name not in requested:
            return LeftOutReason.NOT_REQUESTED, "not among the tools chosen for this run"
        if tool.name in disabled_tools:
            return LeftOutReason.DISABLED, "the tool is disabled on this site"
        if tool.group in disabled_groups:
            return LeftOutReason.GROUP_DISABLED, f"its group {tool.group!r} is disabled on this site"
        if tool.group not in configuration.tool_groups:
            return LeftOutReason.NOT_IN_CONFIGURATION, f"the configuration doesn't have its group {tool.group!r}"
        if allowed is not None and tool.name not in allowed:
            return LeftOutReason.NOT_IN_SKILLS, "no skill in the prompt allows it"
        if not permitted(tool):
            return LeftOutReason.NO_PERMISSION, f"you lack the permission {tool.permission!r}"
        if tool.off_because is not None and (reason := tool.off_because(context)):
            return LeftOutReason.OFF_HERE, reason
        if not configuration.model.supports_tools:
            return LeftOutReason.MODEL_WITHOUT_TOOLS, f"the model {configuration.model.name!r} can't call tools"
        return None

    offered: list[Tool] = []
    left_out = [
        LeftOut(name=name, reason=LeftOutReason.UNKNOWN, detail="this site has no tool of that name")
        for name in dict.fromkeys(requested or ())
        if name not in registry
    ]
    for name in sorted(registry):
        if found := objection(registry[name]):
            left_out.append(LeftOut(name=name, reason=found[0], detail=found[1]))
        else:
            offered.append(registry[name])
    return Gate(offered=tuple(offered), left_out=tuple(left_out), warnings=tuple(warnings))


def _allowed_by_skills(skills: Sequence[Skill], registry: Mapping[str, Tool]) -> tuple[set[str] | None, list[str]]:
    """The union of what the skills allow (`None`: no restriction), and warnings."""
    allowed: set[str] | None = None
    warnings: list[str] = []
    for skill in skills:
        if skill.allowed_tools is None:
            continue
        known = {name for name in skill.allowed_tools if name in registry}
        if unknown := [name for name in skill.allowed_tools if name not in registry]:
            warnings.append(f"The skill {skill.name!r} allows tools that this site doesn't know: {', '.join(unknown)}.")
        # Only unknown names, most likely those of another program: taken as if nothing was declared.
        if unknown and not known:
            continue
        allowed = known if allowed is None else allowed | known
    return allowed, warnings
