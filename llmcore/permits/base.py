"""The words of permits, the small protocol that the metered client knows, and the rule who is next.

A permit is the right to have one provider call in flight, within the limits of its provider and of the whole site. It
is granted under both at once, so no call holds a part of it while it waits for the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from llmcore.configuration import Provider
from llmcore.errors import ConfigurationError
from llmcore.messages import JSON

# Who holds a permit or waits for one says so three times as often; who doesn't for this long has died.
LEASE_S = 6.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Ceiling:
    """Most calls in flight: to one provider, and in `total` to all of a site's; `None` where there is no limit.

    ConfigurationError for a limit that lets no call through.
    """

    calls: int | None = None
    total: int | None = None

    def __post_init__(self) -> None:
        for limit in (self.calls, self.total):
            if limit is not None and limit < 1:
                raise ConfigurationError(
                    f"A limit of {limit} calls at once lets none through. Set it to 1 or more, or to none."
                )

    def __bool__(self) -> bool:
        return self.calls is not None or self.total is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Ticket:
    """A call that waits for a permit or holds one.

    `order` is when it came, in microseconds of the store's clock and unlike any other's; `None` before the store has
    said so. `since` is when it got its permit (`held`) or else when it came. `run_id` is the run that it is for.
    """

    token: str
    provider: str
    ceiling: Ceiling
    run_id: int | None = None
    order: int | None = None
    held: bool = False
    since: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a call stands: it holds a permit at `position` 0, else it is at this one, from 1, of `waiting` calls.

    They wait for the same provider or, where `of_site`, for any. `recounting`: the store has lost who holds a permit,
    and grants none until they have said so again. `away`: the store can't be reached, so the position is unknown.
    """

    order: int | None = None
    position: int = 0
    waiting: int = 0
    of_site: bool = False
    recounting: bool = False
    away: bool = False

    def to_json(self) -> dict[str, JSON]:
        """As steps and live pages have it."""
        named = {"of_site": self.of_site, "recounting": self.recounting, "away": self.away}
        return {
            "position": self.position,
            "waiting": self.waiting,
            **{name: True for name, is_so in named.items() if is_so},
        }


class StoreAway(Exception):
    """The store of tickets can't be reached at the moment."""


class TicketStore(Protocol):
    """Keeps the tickets of all processes of a site. Used on one thread; any method may raise StoreAway.

    Tickets that weren't looked at for `lease_s` are gone. Looking and leaving grants what can be granted.
    """

    @property
    def lease_s(self) -> float: ...

    def look(self, ticket: Ticket) -> Place:
        """Enter the ticket, or say that it is still there, and tell where it stands. One that was lost is entered again
        as it is: at its `order`, and `held` if it is."""

    def leave(self, token: str) -> None:
        """Give back the permit, or the place in line."""

    def tickets(self) -> list[Ticket]:
        """All that hold a permit, then all that wait, those first who do so longest."""


class Permit(Protocol):
    """A permit that is held."""

    def release(self) -> None:
        """Give it back; returns at once."""


class Permits(Protocol):
    """Where the metered client gets its permits."""

    def needed(self, provider: Provider) -> bool:
        """Whether calls to `provider` need permits at all: where no limit is set, nothing more is asked or awaited."""

    async def acquire(self, provider: Provider, told: Callable[[Place], None]) -> Permit | None:
        """Wait for a permit; `None` where none is needed any more. `told` hears each new place in line while it waits.

        A wait that is cancelled leaves nothing behind, also where the permit had been granted already.
        """


def next_granted(tickets: Iterable[Ticket]) -> list[Ticket]:
    """Those of the waiting tickets that get a permit now, in their order.

    Whoever came first and can go, goes. Only a provider's own limit lets somebody go first who came later, to another
    provider: the later one takes nothing that the earlier one could have had.
    """
    in_order = sorted(tickets, key=_order)
    in_flight = Counter(ticket.provider for ticket in in_order if ticket.held)
    granted: list[Ticket] = []
    full: set[str] = set()
    for ticket in in_order:
        if ticket.held:
            continue
        ceiling = ticket.ceiling
        if ceiling.total is not None and in_flight.total() >= ceiling.total:
            break
        if ceiling.calls is not None and in_flight[ticket.provider] >= ceiling.calls:
            full.add(ticket.provider)
        if ticket.provider not in full:
            in_flight[ticket.provider] += 1
            granted.append(ticket)
    return granted


def place_of(token: str, tickets: Iterable[Ticket]) -> Place | None:
    """Where the ticket stands among all; `None` where it isn't there. It waits for its provider where even without the
    limit of the site it could not go."""
    in_order = sorted(tickets, key=_order)
    own = next((ticket for ticket in in_order if ticket.token == token), None)
    if own is None:
        return None
    if own.held:
        return Place(order=own.order)
    line = [ticket for ticket in in_order if not ticket.held]
    same = [ticket for ticket in line if ticket.provider == own.provider]
    in_flight = sum(ticket.held and ticket.provider == own.provider for ticket in in_order)
    limit = own.ceiling.calls
    of_site = limit is None or in_flight + same.index(own) < limit
    among = line if of_site else same
    return Place(order=own.order, position=among.index(own) + 1, waiting=len(among), of_site=of_site)


def _order(ticket: Ticket) -> int:
    return ticket.order or 0
