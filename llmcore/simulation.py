"""What would happen to a call by the site's rules, without running anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llmcore import store
from llmcore.actions.policy import Judged
from llmcore.errors import ToolError
from llmcore.messages import JSON
from llmcore.tools.arguments import objections, validator_for
from llmcore.tools.base import Action, Tool, ToolContext


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


def simulate(*, tool: Tool, arguments: Mapping[str, JSON], user: Any) -> Simulated:
    """Judged by the same function as in a run. The tool is asked what the call would do, as it is there."""
    if user is not None and tool.permission and not user.has_perm(tool.permission):
        return Simulated(problem=f"The tool isn't offered: {user} lacks the permission {tool.permission!r}.")
    if found := objections(validator_for(tool.parameters), dict(arguments)):
        return Simulated(problem="The arguments don't fit the tool's schema: " + "; ".join(found))
    context = ToolContext(user=user)
    try:
        asked, action = tool.needs_approval(arguments, context), tool.action(arguments, context)
    except ToolError as error:
        return Simulated(problem=f"The tool says that this can't be run: {error}")
    except Exception as error:
        return Simulated(problem=f"The tool can't say what it would do ({type(error).__name__}), so it would not run.")
    judged = store.load_policy(user).judge(tool=tool.name, arguments=arguments, action=action, needs_approval=asked)
    return Simulated(judged=judged, action=action)
