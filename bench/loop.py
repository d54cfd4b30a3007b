"""What the tool loop costs beside raw httpx and beside others: CPU per round, `python -m bench.loop [--peers DIR]`.

Each contestant is a process of its own and they take turns, so that noise falls on all alike; a ratio is the median of
the ratios to the floor's turn in the same repeat. How to add a contestant is told in README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OWN = ("floor", "floor_cached", "untraced", "traced", "recorded")
OWN_STREAMED = ("floor_streamed", "untraced", "traced", "recorded")
ANSWER_S = 300.0
WARM_UP = {"rounds": 5, "size": 100, "parallel": 1}


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """What one table is about."""

    rounds: int
    size: int
    parallel: int = 1
    stream: bool = False

    def __str__(self) -> str:
        calls = f", {self.parallel} calls a round" if self.parallel > 1 else ""
        return f"{self.rounds} rounds, results of {self.size} bytes{calls}{', streamed' if self.stream else ''}"

    @property
    def command(self) -> dict[str, Any]:
        # Peers know nothing of streaming.
        streamed = {"stream": True} if self.stream else {}
        return {"rounds": self.rounds, "size": self.size, "parallel": self.parallel, **streamed}


SHAPES = (
    Shape(rounds=20, size=100),
    Shape(rounds=100, size=100),
    Shape(rounds=20, size=10_000),
    Shape(rounds=100, size=10_000),
    Shape(rounds=20, size=100, parallel=4),
    Shape(rounds=20, size=100, stream=True),
    Shape(rounds=100, size=10_000, stream=True),
)


class Worker:
    """The process of one contestant."""

    def __init__(self, command: list[str], model_port: int) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "MODEL_PORT": str(model_port)},
        )

    def ask(self, command: dict[str, Any]) -> dict[str, float]:
        """The answer to `command`. RuntimeError where there is none in time, or it is an error."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(command), file=self._process.stdin, flush=True)
        if not select.select([self._process.stdout], [], [], ANSWER_S)[0]:
            raise RuntimeError(f"no answer within {ANSWER_S:g} s")
        answer: dict[str, Any] = json.loads(self._process.stdout.readline() or '{"error": "it has ended"}')
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextlib.contextmanager
def model_server() -> Iterator[int]:
    """The port of a model server."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.model_server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None and server.stdin is not None
        yield int(server.stdout.readline())
        server.stdin.close()


@contextlib.contextmanager
def contestants(peers: Path | None, only: set[str]) -> Iterator[dict[str, Worker]]:
    """All that can be started, warmed up; what can't is left out, and said so."""
    commands = {name: [sys.executable, "-m", "bench.contestants", name] for name in {*OWN, *OWN_STREAMED}}
    for file in sorted(peers.iterdir()) if peers else ():
        if file.is_file() and os.access(file, os.X_OK):
            commands[file.stem] = [str(file.resolve())]
    workers: dict[str, Worker] = {}
    with model_server() as port:
        try:
            for name, command in commands.items():
                if not only or name in only:
                    workers[name] = Worker(command, port)
            for name, worker in list(workers.items()):
                try:
                    worker.ask(WARM_UP)
                    worker.ask(WARM_UP)
                except RuntimeError as error:
                    print(f"{name} is left out: {error}", file=sys.stderr)
                    workers.pop(name).close()
            yield workers
        finally:
            for worker in workers.values():
                worker.close()


def measure(workers: dict[str, Worker], shape: Shape, repeats: int) -> dict[str, list[tuple[float, float]]]:
    """CPU and wall milliseconds per round, for each contestant one pair a repeat. The first is the floor."""
    own = OWN_STREAMED if shape.stream else OWN
    peers = [] if shape.stream else [name for name in workers if name not in {*OWN, *OWN_STREAMED}]
    names = [name for name in (*own, *peers) if name in workers]
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for repeat in range(repeats):
        for name in names[:: 1 if repeat % 2 == 0 else -1]:
            answer = workers[name].ask(shape.command)
            figures[name].append((answer["cpu"] * 1000 / shape.rounds, answer["wall"] * 1000 / shape.rounds))
    return figures


def print_table(shape: Shape, figures: dict[str, list[tuple[float, float]]]) -> None:
    floors = next(iter(figures.values()))
    print(f"\n{shape}: milliseconds per round, medians of {len(floors)}")
    print(f"{'':16}{'cpu':>8}{'x floor':>9}{'min cpu':>9}{'wall':>9}{'x floor':>9}")
    for name, values in figures.items():
        cpu, wall = (statistics.median(column) for column in zip(*values, strict=True))
        cpu_ratio, wall_ratio = (
            statistics.median(value[column] / floor[column] for value, floor in zip(values, floors, strict=True))
            for column in (0, 1)
        )
        least = min(value[0] for value in values)
        print(f"{name:16}{cpu:8.2f}{cpu_ratio:9.2f}{least:9.2f}{wall:9.2f}{wall_ratio:9.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--peers", type=Path, help="a folder of programs that speak the protocol of README.md")
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="these contestants, the floors first")
    options = parser.parse_args()
    with contestants(options.peers, set(options.only)) as workers:
        for shape in SHAPES:
            if figures := measure(workers, shape, options.repeats):
                print_table(shape, figures)


if __name__ == "__main__":
    main()
