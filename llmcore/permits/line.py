"""The line that provider calls stand in for a permit: the event loop's side of a store of tickets."""

from __future__ import annotations

import asyncio
import logging
import math
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from llmcore.configuration import Provider
from llmcore.permits.base import Ceiling, Place, StoreAway, Ticket, TicketStore

logger = logging.getLogger(__name__)

# How often a waiting call looks where it stands: the first in line at once, those behind it less often.
FIRST_LOOK_S = 0.05
MOST_LOOK_S = 0.4
# How long a store that is away is left alone.
AWAY_S = 0.5

Result = TypeVar("Result")


class PermitLine:
    """Gets permits from a store that all processes of a site share. One for each event loop; used as a context.

    The store's calls block, so they are made on a thread of its own, one after the other: what was asked first is done
    first, also where nobody waits for it any more. A store that is away lets no call through: they wait.
    """

    def __init__(
        self,
        store: TicketStore,
        *,
        ceiling_of: Callable[[Provider], Ceiling],
        total: int | None = None,
        run_id: int | None = None,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        """`ceiling_of` is asked on the thread of the store, now and then while a call waits: limits may change. A
        provider without a limit costs nothing, unless the site has one (`total`). `close` is called on that thread at
        last."""
        self._store = store
        self._ceiling_of = ceiling_of
        self._total = total
        self._close = close
        self._run_id = run_id
        self._ceilings: dict[str, tuple[float, Ceiling]] = {}
        self.renew_s = store.lease_s / 3
        # Only where there is a limit.
        self._thread: ThreadPoolExecutor | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            closing = asyncio.get_running_loop().run_in_executor(self._thread, self._close)
            self._thread.shutdown(wait=False)
            await closing

    def needed(self, provider: Provider) -> bool:
        return provider.max_calls_in_flight is not None or self._total is not None

    async def acquire(self, provider: Provider, told: Callable[[Place], None]) -> HeldPermit | None:
        ticket = Ticket(token=uuid.uuid4().hex, provider=provider.slug, ceiling=Ceiling(), run_id=self._run_id)
        try:
            place = await self._wait(ticket, provider, told)
        except BaseException:
            # Whatever the store has made of it meanwhile.
            self.leave(ticket.token)
            raise
        if place is None:
            self.leave(ticket.token)
            return None
        return HeldPermit(line=self, ticket=replace(ticket, order=place.order, held=True), provider=provider)

    def leave(self, token: str) -> None:
        """Give back what the call has: its permit or its place. Done also where this event loop ends meanwhile."""
        self._executor.submit(self._leave, token)

    async def renew(self, ticket: Ticket, provider: Provider) -> None:
        """Say that the permit is still held. Whether anybody can be told or not, the call is in flight."""
        try:
            await self._on_thread(partial(self._look, ticket, provider))
        except StoreAway as error:
            logger.info("a permit could not be renewed: %s", error)
        except Exception:
            logger.exception("a permit could not be renewed")

    async def _wait(self, ticket: Ticket, provider: Provider, told: Callable[[Place], None]) -> Place | None:
        """Where a permit was granted, or `None` where none is needed (any more)."""
        last: Place | None = None
        while True:
            try:
                place = await self._on_thread(partial(self._look, ticket, provider))
            except StoreAway as error:
                if last is None or not last.away:
                    logger.warning("permits can't be reached, calls to %s wait: %s", provider.slug, error)
                place = replace(last or Place(), away=True)
            if place is None or (not place.position and not place.away):
                return place
            ticket = replace(ticket, order=place.order)
            if place != last:
                told(place)
                last = place
            await asyncio.sleep(AWAY_S if place.away else min(FIRST_LOOK_S * place.position, MOST_LOOK_S))

    def _look(self, ticket: Ticket, provider: Provider) -> Place | None:
        ceiling = self._ceiling(provider)
        if not ceiling and not ticket.held:
            return None
        return self._store.look(replace(ticket, ceiling=ceiling))

    def _ceiling(self, provider: Provider) -> Ceiling:
        read_at, ceiling = self._ceilings.get(provider.slug, (-math.inf, Ceiling()))
        if time.monotonic() - read_at >= self.renew_s:
            ceiling = self._ceiling_of(provider)
            self._ceilings[provider.slug] = time.monotonic(), ceiling
        return ceiling

    def _leave(self, token: str) -> None:
        # Nobody waits for this: whatever goes wrong here, the ticket is gone after its lease.
        try:
            self._store.leave(token)
        except StoreAway as error:
            logger.warning("a permit could not be given back, its lease will end: %s", error)
        except Exception:
            logger.exception("a permit could not be given back, its lease will end")

    async def _on_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    @property
    def _executor(self) -> ThreadPoolExecutor:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="permits")
        return self._thread


@dataclass(eq=False, slots=True)
class HeldPermit:
    """A permit that is held, and renewed until it is released."""

    line: PermitLine
    ticket: Ticket
    provider: Provider
    _renewing: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self._renewing = asyncio.create_task(self._keep())

    def release(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            self._renewing = None
            self.line.leave(self.ticket.token)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self.line.renew_s)
            await self.line.renew(self.ticket, self.provider)
