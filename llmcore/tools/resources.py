"""What tools open once for all their calls in a run, and what is closed when the loop stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from typing import Any, Protocol, Self, TypeVar

logger = logging.getLogger(__name__)


class Resource(Protocol):
    """Something that stays open between two calls of tools."""

    async def close(self) -> None:
        """End it, whatever it is at; within half a second, since a run must stop within one."""


Opened = TypeVar("Opened", bound=Resource)


class RunResources:
    """The resources of one run, by a key that says what they are to. Used on the run's event loop only."""

    def __init__(self) -> None:
        self._opened: dict[Hashable, Any] = {}

    def take(self, key: Hashable, make: Callable[[], Opened]) -> Opened:
        """What was made for `key` before in this run, else what `make` makes."""
        if key not in self._opened:
            self._opened[key] = make()
        made: Opened = self._opened[key]
        return made

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        ended = await asyncio.gather(*(made.close() for made in self._opened.values()), return_exceptions=True)
        for problem in ended:
            if isinstance(problem, Exception):
                logger.error("closing a resource of a run failed: %s", type(problem).__name__)
