"""The permits of this site: over Redis where it has one for them, else over its database."""

from __future__ import annotations

from django.db import connections

from llmcore import configuration as values
from llmcore.conf import most_calls_in_flight, settings
from llmcore.database_access import reached
from llmcore.models import Provider
from llmcore.permits.base import Ceiling, StoreAway, Ticket, TicketStore
from llmcore.permits.database import DatabaseTickets
from llmcore.permits.line import PermitLine
from llmcore.permits.redis import RedisTickets


def site_permits(*, run_id: int | None = None) -> PermitLine:
    """What the calls of one event loop get their permits from; `run_id` names the run that they are for."""
    return PermitLine(
        site_tickets(),
        ceiling_of=ceiling_of,
        total=most_calls_in_flight(),
        run_id=run_id,
        close=connections.close_all,
    )


def site_tickets() -> TicketStore:
    url = settings.LLM_PERMITS_URL
    return RedisTickets(url) if url else DatabaseTickets()


def tickets_now() -> list[Ticket]:
    """The calls that hold a permit or wait for one at this moment. StoreAway where nobody can say."""
    return site_tickets().tickets()


def ceiling_of(provider: values.Provider) -> Ceiling:
    """The limits as they are now: those of a run may have been changed since it began."""
    found = Provider.objects.filter(slug=provider.slug).values_list("max_calls_in_flight", flat=True)
    calls = next(iter(reached(lambda: list(found), away=StoreAway)), provider.max_calls_in_flight)
    return Ceiling(calls=calls, total=most_calls_in_flight())
