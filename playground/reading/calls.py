"""The provider calls that are in flight or wait for that at this moment, with the runs that they are for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from llmcore.conf import most_calls_in_flight
from llmcore.models import Provider
from llmcore.permits.base import StoreAway, Ticket, place_of
from llmcore.site_permits import tickets_now
from playground.access import visible_runs
from playground.models import Run
from playground.numbers import ordinal

# A site has hardly as many worker slots.
MOST_ROWS = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class CallRow:
    """One call on one line. `run` is `None` where the reader may not see it, or where the call is for none."""

    run: Run | None
    hidden: bool
    provider: str
    place: str
    since: datetime

    @property
    def waits(self) -> bool:
        return bool(self.place)


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitRow:
    """A limit, and how far it is used."""

    name: str
    limit: int
    in_flight: int
    waiting: int


def read_calls(*, user: Any) -> dict[str, Any]:
    """`away` where nobody can say: then no call goes out, either."""
    try:
        tickets = tickets_now()
    except StoreAway:
        return {"away": True, "limits": [], "calls": [], "more": 0}
    providers = {row.slug: row for row in Provider.objects.all()}
    names = {slug: row.name for slug, row in providers.items()}
    numbers = {ticket.run_id for ticket in tickets if ticket.run_id is not None}
    seen = visible_runs(user).filter(pk__in=numbers).select_related("user").defer("prompt", "request", "answer")
    runs = {run.pk: run for run in seen}
    return {
        "away": False,
        "limits": _limits(tickets, list(providers.values())),
        "calls": [_row(ticket, tickets, names, runs) for ticket in tickets[:MOST_ROWS]],
        "more": max(len(tickets) - MOST_ROWS, 0),
    }


def _limits(tickets: Sequence[Ticket], providers: Sequence[Provider]) -> list[LimitRow]:
    """Those of the providers, and that of the site at last."""
    limits = [
        _limit(provider.name, provider.max_calls_in_flight, [t for t in tickets if t.provider == provider.slug])
        for provider in providers
        if provider.max_calls_in_flight is not None
    ]
    total = most_calls_in_flight()
    return limits if total is None else [*limits, _limit("All providers", total, tickets)]


def _limit(name: str, limit: int, tickets: Sequence[Ticket]) -> LimitRow:
    in_flight = sum(ticket.held for ticket in tickets)
    return LimitRow(name=name, limit=limit, in_flight=in_flight, waiting=len(tickets) - in_flight)


def _row(ticket: Ticket, tickets: Sequence[Ticket], names: dict[str, str], runs: dict[int, Run]) -> CallRow:
    place = place_of(ticket.token, tickets)
    run = runs.get(ticket.run_id) if ticket.run_id is not None else None
    return CallRow(
        run=run,
        hidden=ticket.run_id is not None and run is None,
        provider=names.get(ticket.provider, ticket.provider),
        place=f"{ordinal(place.position)} of {place.waiting}" if place and place.position else "",
        since=datetime.fromtimestamp(0, UTC) + timedelta(microseconds=ticket.since),
    )
