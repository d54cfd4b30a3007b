"""What would happen to a call by the site's rules, without running anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llmcore import store
from llmcore.actions.policy import Judged
from llmcore.errors import ToolError
from llmcore.messages import JSON
from llmcore.models import Configuration
from llmcore.tools.arguments import objections, validator_for
from llmcore.tools.base import Action, Tool, ToolContext
from llmcore.workspaces import workspace_named


@dataclass(frozen=True, kw_only=True, slots=True)
class Simulated:
    """The policy's judgment of a call; `problem` says why it could not even be asked for."""

    judged: Judged | None = None
    action: Action | None = None
    problem: str = ""

    @property
    def others(self) -> list[Any]:
        """The rules that fit too and don't decide."""
        return [rule for rule in self.judged.matched if rule is not self.judged.rule] if self.judged else []


def simulate(
    *, tool: Tool, arguments: Mapping[str, JSON], user: Any, configuration: Configuration | None = None
) -> Simulated:
    """Judged by the same function as in a run of `configuration`; the tool is asked what the call would do."""
    if user is not None and tool.permission and not user.has_perm(tool.permission):
        return Simulated(problem=f"The tool isn't offered: {user} lacks the permission {tool.permission!r}.")
    if found := objections(validator_for(tool.parameters), dict(arguments)):
        return Simulated(problem="The arguments don't fit the tool's schema: " + "; ".join(found))
    try:
        context = ToolContext(
            user=user,
            configuration=configuration.slug if configuration else "",
            workspace=workspace_named(configuration.workspace) if configuration else None,
        )
        asked, action = tool.needs_approval(arguments, context), tool.action(arguments, context)
    except ToolError as error:
        return Simulated(problem=f"The tool says that this can't be run: {error}")
    except Exception as error:
        return Simulated(problem=f"The tool can't say what it would do ({type(error).__name__}), so it would not run.")
    judged = store.load_policy(user).judge(tool=tool.name, arguments=arguments, action=action, needs_approval=asked)
    return Simulated(judged=judged, action=action)
