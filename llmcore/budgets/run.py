"""The budgets of one run: the event loop's side of a store, and the ceiling of the run itself."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from llmcore.budgets.base import (
    Allowance,
    Amounts,
    BudgetExceeded,
    BudgetsAway,
    BudgetStore,
    Crossing,
    Measure,
    Need,
    Period,
    Shortage,
    crossed,
)

logger = logging.getLogger(__name__)

# How long a store that is away is tried again before the call is given up, and how often.
PATIENCE_S = 10.0
AWAY_S = 0.25

Result = TypeVar("Result")


class RunBudgets:
    """What the calls of one run reserve from. One for each event loop; used as a context. False where nothing is
    limited.

    The store's calls block, so they are made on a thread of its own, one after the other: what was asked first is done
    first, also where nobody waits for it any more. Without an answer of the store no call is made.
    """

    def __init__(
        self,
        store: BudgetStore | None = None,
        *,
        ceiling: Allowance | None = None,
        used: Amounts | None = None,
        patience_s: float = PATIENCE_S,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        """`used` is what earlier segments of the run used of its `ceiling`. `close` is called on the thread of the
        store at last."""
        self._store = store
        self._ceiling = ceiling or Allowance()
        self._used = used or Amounts()
        self._reserved = Amounts()
        self._patience_s = patience_s
        self._close = close
        # Only where something is asked of the store.
        self._thread: ThreadPoolExecutor | None = None

    def __bool__(self) -> bool:
        return self._store is not None or bool(self._ceiling)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            closing = asyncio.get_running_loop().run_in_executor(self._thread, self._close)
            self._thread.shutdown(wait=False)
            await closing

    async def reserve(self, need: Need, *, within_s: float) -> HeldReservation:
        if shortage := self._over_ceiling(need):
            raise BudgetExceeded(shortage)
        token = uuid.uuid4().hex
        if self._store is not None:
            try:
                await self._patiently(partial(self._store.reserve, token, need, within_s=within_s))
            except BudgetExceeded:
                raise
            except BaseException:
                # Whatever the store has made of it meanwhile.
                self._submit(token, Amounts())
                raise
        self._reserved += need.most
        return HeldReservation(budgets=self, token=token, need=need)

    async def settle(self, token: str, need: Need, used: Amounts) -> Sequence[Crossing]:
        own = self._count(need, used)
        if self._store is None:
            return own
        try:
            return [*own, *await asyncio.shield(self._patiently(partial(self._store.settle, token, used)))]
        except BudgetsAway as error:
            # The call was made, whatever is written of it: what it reserved is freed when its time is over.
            logger.warning("what a call used could not be counted in its budgets: %s", error)
            return own

    def abandon(self, token: str, need: Need) -> None:
        self._count(need, need.sent)
        self._submit(token, None)

    def _over_ceiling(self, need: Need) -> Shortage | None:
        for measure in Measure:
            limit, needed = self._ceiling.of(measure), need.most.of(measure)
            if limit is None:
                continue
            used, reserved = self._used.of(measure) or 0, self._reserved.of(measure) or 0
            if needed is None or used + reserved + needed > limit:
                return Shortage(
                    name="",
                    period=Period.RUN,
                    measure=measure,
                    limit=limit,
                    used=used,
                    reserved=reserved,
                    needed=needed,
                    model=need.model,
                )
        return None

    def _count(self, need: Need, used: Amounts) -> list[Crossing]:
        """Count what a call used in place of what it had reserved, and say what of the ceiling that crossed."""
        before, after, most = self._used, self._used + used, need.most
        self._used = after
        self._reserved += Amounts(requests=-most.requests, tokens=-most.tokens, cost=-(most.cost or Decimal(0)))
        return [
            Crossing(name="", period=Period.RUN, measure=measure, percent=percent, limit=limit, used=spent)
            for measure in Measure
            if (limit := self._ceiling.of(measure)) is not None and (spent := after.of(measure)) is not None
            for percent in crossed(before.of(measure) or 0, spent, limit)
        ]

    async def _patiently(self, work: Callable[[], Result]) -> Result:
        until = time.monotonic() + self._patience_s
        while True:
            try:
                return await asyncio.get_running_loop().run_in_executor(self._executor, work)
            except BudgetsAway:
                if time.monotonic() + AWAY_S > until:
                    raise
                await asyncio.sleep(AWAY_S)

    def _submit(self, token: str, used: Amounts | None) -> None:
        if self._store is not None:
            self._executor.submit(self._settle_unheard, self._store, token, used)

    def _settle_unheard(self, store: BudgetStore, token: str, used: Amounts | None) -> None:
        # Nobody waits for this: whatever goes wrong here, the reservation is freed when its time is over.
        try:
            store.settle(token, used)
        except BudgetsAway as error:
            logger.warning("a reservation could not be given back, its time will end: %s", error)
        except Exception:
            logger.exception("a reservation could not be given back, its time will end")

    @property
    def _executor(self) -> ThreadPoolExecutor:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="budgets")
        return self._thread


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldReservation:
    """What is reserved for one call, until it is settled."""

    budgets: RunBudgets
    token: str
    need: Need

    async def settle(self, used: Amounts) -> Sequence[Crossing]:
        return await self.budgets.settle(self.token, self.need, used)

    def abandon(self) -> None:
        self.budgets.abandon(self.token, self.need)
