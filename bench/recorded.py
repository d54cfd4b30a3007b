"""A contestant of `bench.loop`: the tool loop as a worker drives it, every step of it recorded in SQLite."""

from __future__ import annotations

import atexit
import tempfile
from functools import cache

from bench import site
from bench.conversation import Conversation, model_url

present: list[Conversation] = []


async def lookup(key: str) -> str:
    return present[-1].lookup(key)


@cache
def open_site() -> None:
    folder = tempfile.TemporaryDirectory(prefix="bench-")
    atexit.register(folder.cleanup)
    site.open_site(folder.name, model_url=model_url(), lookup=lookup)


def drive(conversation: Conversation) -> str:
    open_site()
    present[:] = [conversation]
    run = site.new_run(prompt=conversation.prompt, rounds=conversation.rounds, stream=conversation.stream)
    site.drive(run)
    return run.answer
