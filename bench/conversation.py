"""The conversation that every contestant of `bench.loop` has, and the protocol in which it is told to have it."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

LINE = 'The quick brown fox, id "42", jumps over the lazy dog; path=/srv/data/item.json ok\n'
PARAMETERS = {
    "type": "object",
    "properties": {"key": {"type": "string"}},
    "required": ["key"],
    "additionalProperties": False,
}


@dataclass(kw_only=True, slots=True)
class Conversation:
    """One conversation: so many rounds, in all but the last of which the model asks for `parallel` lookups.

    `size` is the length of a result in characters. `looked_up` counts the results that were given.
    """

    rounds: int
    size: int
    parallel: int = 1
    stream: bool = False
    looked_up: int = field(default=0, init=False)

    @property
    def prompt(self) -> str:
        return f"Please work through the keys. rounds={self.rounds} parallel={self.parallel}"

    def lookup(self, key: str) -> str:
        self.looked_up += 1
        return (f"{key}: " + LINE * (self.size // len(LINE) + 1))[: self.size]

    def check(self, answer: str) -> None:
        """RuntimeError where it was another conversation than the one to be measured."""
        expected = (f"done:{self.rounds}", (self.rounds - 1) * self.parallel)
        if (answer, self.looked_up) != expected:
            raise RuntimeError(f"not the run that was to be measured: {(answer, self.looked_up)}, not {expected}")


Contestant = Callable[[Conversation], Awaitable[str] | str]


def model_url() -> str:
    return f"http://127.0.0.1:{os.environ['MODEL_PORT']}/v1"


def serve(contestant: Contestant) -> None:
    """Have a conversation for each line of standard input; answer with what it took of time, in seconds."""
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            print(json.dumps(measured(contestant, Conversation(**json.loads(line)), runner)), flush=True)


def measured(contestant: Contestant, conversation: Conversation, runner: asyncio.Runner) -> dict[str, Any]:
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    answer = contestant(conversation)
    if inspect.isawaitable(answer):
        answer = runner.run(answered(answer))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    conversation.check(answer)
    return {"wall": wall, "cpu": cpu}


async def answered(answer: Awaitable[str]) -> str:
    return await answer
