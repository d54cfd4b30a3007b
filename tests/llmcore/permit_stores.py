"""Stores of permit tickets for tests: the real ones, on their own or in other processes, and one in memory."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import redis

from llmcore.configuration import Provider
from llmcore.permits.base import Ceiling, Place, StoreAway, Ticket, TicketStore, next_granted, place_of
from llmcore.permits.line import PermitLine
from llmcore.permits.redis import KEYS, RedisTickets

ROOT = Path(__file__).resolve().parent.parent.parent
DATABASE = "database"
# Since when Redis keeps tickets.
BEGAN = next(key for key in KEYS if key.endswith(":began"))


class MemoryTickets:
    """The tickets of one process. `away` makes it one that can't be reached; `looks` are all tickets that it was told
    of."""

    def __init__(self, *, lease_s: float = 60.0) -> None:
        self.lease_s = lease_s
        self.away = False
        self.looks: list[Ticket] = []
        self._all: dict[str, Ticket] = {}
        self._lock = threading.Lock()
        self._last = 0

    def look(self, ticket: Ticket) -> Place:
        with self._lock:
            self._reach()
            self.looks.append(ticket)
            known = self._all.get(ticket.token)
            self._last += known is None
            order = (known or ticket).order or self._last
            held = ticket.held or bool(known and known.held)
            self._all[ticket.token] = replace(ticket, order=order, held=held)
            self._grant()
            place = place_of(ticket.token, self._all.values())
        assert place is not None
        return place

    def leave(self, token: str) -> None:
        with self._lock:
            self._reach()
            self._all.pop(token, None)
            self._grant()

    def tickets(self) -> list[Ticket]:
        with self._lock:
            return sorted(self._all.values(), key=lambda ticket: (not ticket.held, ticket.order))

    def _reach(self) -> None:
        if self.away:
            raise StoreAway("it is away")

    def _grant(self) -> None:
        for ticket in next_granted(self._all.values()):
            self._all[ticket.token] = replace(ticket, held=True)


def line_over(store: TicketStore, ceiling: Ceiling, **options: object) -> PermitLine:
    """A line whose limits never change, also for providers that have none themselves."""
    return PermitLine(store, ceiling_of=lambda provider: ceiling, total=ceiling.total or 10**6, **options)  # type: ignore[arg-type]


def provider(slug: str = "one") -> Provider:
    return Provider(slug=slug, name=slug.title(), adapter="openai_compat", base_url="https://llm.example.com/v1")


def ticket(slug: str = "one", calls: int | None = 1, total: int | None = None, **fields: object) -> Ticket:
    return Ticket(token=uuid4().hex, provider=slug, ceiling=Ceiling(calls=calls, total=total), **fields)  # type: ignore[arg-type]


async def until(ready: Callable[[], object]) -> None:
    while not ready():
        await asyncio.sleep(0.01)


def forget_all(url: str, *, just_now: bool = False) -> None:
    """Empty the Redis: long ago, unless it was `just_now`."""
    server = redis.Redis.from_url(url)
    server.flushall()
    if not just_now:
        server.set(BEGAN, 0)
    server.close()


def open_store(kind: str, lease_s: float) -> TicketStore:
    """The database, or the Redis of this URL."""
    if kind != DATABASE:
        return RedisTickets(kind, lease_s=lease_s)
    from llmcore.permits.database import DatabaseTickets

    return DatabaseTickets(lease_s=lease_s)


class Caller:
    """A process of its own whose calls get their permits from a store: it says what happens, line by line."""

    def __init__(self, kind: str, environment: Mapping[str, str], **options: object) -> None:
        flags = [f"--{name}={value}" for name, value in options.items()]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.llmcore.permit_stores", kind, *flags],
            cwd=ROOT,
            env={**os.environ, **environment, "DJANGO_SETTINGS_MODULE": "config.settings"},
            stdout=subprocess.PIPE,
            text=True,
        )

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def ends(self) -> int:
        assert self.process.stdout is not None
        self.process.stdout.read()
        self.process.stdout.close()
        return self.process.wait(60)


async def make_calls(arguments: argparse.Namespace) -> None:
    """`calls` calls at the same time. While each holds its permit a file lies in `folder`, so that whoever holds one
    sees how many others do."""
    store = open_store(arguments.kind, arguments.lease)
    ceiling = Ceiling(calls=arguments.limit)
    async with line_over(store, ceiling) as line:

        async def call(number: int) -> None:
            for _ in range(arguments.times):
                permit = await line.acquire(provider(), lambda place: print("waiting", place.position, flush=True))
                assert permit is not None
                print("held", flush=True)
                if arguments.folder:
                    held = Path(arguments.folder, f"{os.getpid()}-{number}")
                    held.touch()
                    assert len(os.listdir(arguments.folder)) <= arguments.limit, "more are in flight than may be"
                await asyncio.sleep(arguments.hold)
                if arguments.folder:
                    held.unlink()
                permit.release()

        await asyncio.gather(*(call(number) for number in range(arguments.calls)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--limit", type=int, default=1)
    parser.add_argument("--lease", type=float, default=60.0)
    parser.add_argument("--hold", type=float, default=600.0)
    parser.add_argument("--calls", type=int, default=1)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--folder", default="")
    arguments = parser.parse_args()
    if arguments.kind == DATABASE:
        import django

        django.setup()
    asyncio.run(make_calls(arguments))


if __name__ == "__main__":
    main()
