"""Single turns for other engines, with the configurations, budgets and usage records of this site."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model

from llmcore import store
from llmcore.errors import ConfigurationError
from llmcore.mcp_servers import every_tool
from llmcore.models import Configuration
from llmcore.redaction import Redactor
from llmcore.simulation import Simulated, simulate
from llmcore.site_budgets import site_budgets
from llmcore.site_calls import Stop, make_calls
from llmcore.site_usage import DatabaseMeter
from llmcore.turns.request import ActionRequest, InvalidBody, TurnRequest
from llmcore.turns.turn import Turn, take_turn


def secrets_of_site() -> Redactor:
    """What takes this site's secrets out of what a service passes."""
    return store.site_redactor()


def answer_turn(request: TurnRequest, *, session: str, redactor: Redactor, stop: Stop | None = None) -> Turn:
    """Make the turn and wait for it, or until `stop` is called. ConfigurationError says what is wrong before any call.
    Each attempt is a usage record of `session`, the engine's own name for what it does."""
    configuration = store.load_configuration(request.configuration)
    user = user_named(request.user)
    meter = DatabaseMeter(
        user=user,
        configuration_id=configuration.id,
        session=session,
        redactor=redactor,
    )
    return make_calls(
        lambda site: take_turn(
            request, configuration=configuration, client=site.client(site.meter), cancel=site.cancel
        ),
        meter=meter,
        budgets=site_budgets(configuration=configuration, user=user),
        stop=stop,
    )


def judge_action(request: ActionRequest) -> Simulated:
    """What this site says of a call of one of its tools; nothing runs and nothing is stored."""
    row = Configuration.objects.filter(slug=request.configuration, enabled=True).first()
    if row is None:
        raise ConfigurationError(f"There is no configuration “{request.configuration}”, or it is disabled.")
    tool, switches = every_tool().get(request.name), store.load_switches()
    user = user_named(request.user)
    if tool is None:
        return Simulated(problem=f"There is no tool “{request.name}”.")
    if tool.name in switches.disabled_tools or tool.group in switches.disabled_groups:
        return Simulated(problem="The tool is switched off on this site.")
    if tool.group not in row.tool_groups:
        return Simulated(problem=f"The configuration doesn't offer the tool's group “{tool.group}”.")
    if tool.permission and user is None:
        return Simulated(problem="The tool needs a permission, and the call names no user.")
    return simulate(tool=tool, arguments=request.arguments, user=user, configuration=row)


def user_named(name: str) -> Any:
    """The active user for whom a call counts; `None` where none is named."""
    if not name:
        return None
    users = get_user_model()
    user = users._default_manager.filter(**{users.USERNAME_FIELD: name}, is_active=True).first()
    if user is None:
        raise InvalidBody("There is no active user of this name.")
    return user
