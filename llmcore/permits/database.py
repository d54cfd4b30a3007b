"""Permits over the database, for sites without Redis: the same contract, for any number of processes."""

from __future__ import annotations

from dataclasses import replace

from django.db import connection, transaction
from django.utils import timezone

from llmcore.database_access import reached
from llmcore.models import PermitTicket
from llmcore.permits.base import LEASE_S, Ceiling, Place, StoreAway, Ticket, next_granted, place_of

SECOND = 1_000_000
# Any number that no other advisory lock of the database has.
LOCK = 0x6C6C6D5F7065726D


class DatabaseTickets:
    """The tickets of a site in its database. One writer at a time changes them; whoever only waits, reads."""

    def __init__(self, *, lease_s: float = LEASE_S) -> None:
        self.lease_s = lease_s

    def look(self, ticket: Ticket) -> Place:
        return reached(lambda: self._glance(ticket) or self._enter(ticket), away=StoreAway)

    def leave(self, token: str) -> None:
        reached(lambda: _leave(token), away=StoreAway)

    def tickets(self) -> list[Ticket]:
        return reached(_living, away=StoreAway)

    def _glance(self, ticket: Ticket) -> Place | None:
        """Where the ticket stands, by reading alone; `None` where there is something to write."""
        now = database_clock()
        rows = list(PermitTicket.objects.all())
        own = next((row for row in rows if row.pk == ticket.token), None)
        if own is None or own.lease_until - now < self.lease_s * SECOND * 2 / 3:
            return None
        tickets = [ticket_of(row) for row in rows]
        changed = (own.calls, own.total) != (ticket.ceiling.calls, ticket.ceiling.total)
        if changed or any(row.lease_until <= now for row in rows) or next_granted(tickets):
            return None
        return place_of(ticket.token, tickets)

    @transaction.atomic
    def _enter(self, ticket: Ticket) -> Place:
        now = _begin(but=ticket.token)
        found = PermitTicket.objects.filter(pk=ticket.token).first()
        own = found or PermitTicket(token=ticket.token, provider=ticket.provider, run_id=ticket.run_id)
        if found is None:
            own.order = ticket.order or _next_order(now)
        if ticket.held:
            own.held_since = own.held_since or now
        own.calls, own.total = ticket.ceiling.calls, ticket.ceiling.total
        own.lease_until = now + round(self.lease_s * SECOND)
        own.save(force_insert=found is None)
        place = place_of(ticket.token, _grant(now))
        assert place is not None
        return place


@transaction.atomic
def _leave(token: str) -> None:
    now = _begin(but=token)
    PermitTicket.objects.filter(pk=token).delete()
    _grant(now)


def _living() -> list[Ticket]:
    now = database_clock()
    tickets = [ticket_of(row) for row in PermitTicket.objects.filter(lease_until__gt=now)]
    return sorted(tickets, key=lambda ticket: (not ticket.held, ticket.since))


def _begin(*, but: str) -> int:
    """Become the one writer until the end of the transaction, and remove what has died; the time then."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
    now = database_clock()
    # On SQLite the first statement that writes takes the lock, where the transaction did not begin with it.
    dead = PermitTicket.objects.filter(lease_until__lte=now).exclude(pk=but)
    dead.delete()
    return now if connection.vendor == "postgresql" else database_clock()


def _grant(now: int) -> list[Ticket]:
    """Grant what can be granted; all tickets as they are then."""
    tickets = [ticket_of(row) for row in PermitTicket.objects.all()]
    granted = {ticket.token for ticket in next_granted(tickets)}
    if granted:
        PermitTicket.objects.filter(pk__in=granted).update(held_since=now)
    return [replace(ticket, held=ticket.held or ticket.token in granted) for ticket in tickets]


def _next_order(now: int) -> int:
    newest = PermitTicket.objects.order_by("-order").values_list("order", flat=True).first()
    return max(now, (newest or 0) + 1)


def database_clock() -> int:
    """Microseconds. On a server all its clients have its own clock; those of SQLite are on one machine."""
    if connection.vendor != "postgresql":
        return round(timezone.now().timestamp() * SECOND)
    with connection.cursor() as cursor:
        cursor.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        return int(cursor.fetchone()[0])


def ticket_of(row: PermitTicket) -> Ticket:
    return Ticket(
        token=row.token,
        provider=row.provider,
        ceiling=Ceiling(calls=row.calls, total=row.total),
        run_id=row.run_id,
        order=row.order,
        held=row.held_since is not None,
        since=row.order if row.held_since is None else row.held_since,
    )
