"""One attempt's wait for its permit, as it is told to whoever watches the call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from llmcore.configuration import Provider
from llmcore.metering.interrupt import Interrupt
from llmcore.metering.watch import Observer
from llmcore.permits.base import Permit, Permits, Place


@dataclass(frozen=True, kw_only=True, slots=True)
class Permission:
    """Whether an attempt may go out, and the `permit` that it holds, if it needs one. `queued_ms` is how long it stood
    in line; 0 where it went at once."""

    given: bool = True
    permit: Permit | None = None
    queued_ms: float = 0.0

    def give_back(self) -> None:
        if self.permit is not None:
            self.permit.release()


async def ask_permission(
    permits: Permits,
    provider: Provider,
    *,
    attempt: int,
    observer: Observer | None,
    cancel: asyncio.Event | None,
    clock: Callable[[], float],
) -> Permission:
    """Wait for a permit. Where `cancel` is set meanwhile, the attempt may not go out, whatever it holds."""
    began = clock()
    first: Place | None = None

    def told(place: Place) -> None:
        nonlocal first
        first = first or place
        if observer is not None:
            observer.waiting(place)

    permit: Permit | None = None
    async with Interrupt(cancel) as interrupt:
        permit = await permits.acquire(provider, told)
    queued_ms = (clock() - began) * 1000 if first is not None else 0.0
    permission = Permission(given=not interrupt.fired, permit=permit, queued_ms=queued_ms)
    try:
        if first is not None and observer is not None:
            observer.waited(first, queued_ms, attempt=attempt, granted=permission.given)
    except BaseException:
        permission.give_back()
        raise
    return permission
