"""How a recorded run grows with its rounds: `python -m bench.growth`.

Each run is driven as a worker drives it, against a model server on loopback, into a SQLite file of its own, and its
page is fetched as a browser fetches it. Everything per round should stay the same from 50 to 500 rounds. A server that
answers at once lets many steps be written together; `--latency` shows what a step costs that is written by itself.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable

from bench import site
from bench.loop import model_server

SIZES = (50, 100, 200, 500)
RESULT_CHARS = 1_000


def lookup(key: str) -> str:
    return f"{key}: ".ljust(RESULT_CHARS, ".")


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU milliseconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000


def measure(rounds: int, latency_ms: int) -> dict[str, float]:
    """What a run of so many rounds takes, per round."""
    from django.test import Client
    from django.urls import reverse

    run = site.new_run(prompt=f"rounds={rounds} latency={latency_ms}", rounds=rounds)
    wall, cpu = timed(lambda: site.drive(run))
    client = Client(headers={"host": "localhost"})
    client.force_login(run.user)
    address = reverse("playground:run", args=[run.pk])
    client.get(address)
    pages: list[bytes] = []
    page_wall, page_cpu = timed(lambda: pages.append(client.get(address).content))
    stored = stored_bytes(run.pk)
    run.delete()
    return {
        "drive ms": wall / rounds,
        "drive cpu ms": cpu / rounds,
        "stored bytes": stored / rounds,
        "page bytes": len(pages[0]) / rounds,
        "page ms": page_wall / rounds,
        "page cpu ms": page_cpu / rounds,
    }


def stored_bytes(run_id: int) -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT sum(length(data)) FROM playground_runstep WHERE run_id = %s)"
            " + (SELECT sum(length(value)) FROM playground_runcontent WHERE run_id = %s)",
            [run_id, run_id],
        )
        return int(cursor.fetchone()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--latency", type=int, default=0, metavar="MS", help="of the model, in milliseconds")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="ROUNDS")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, model_server() as port:
        site.open_site(folder, model_url=f"http://127.0.0.1:{port}/v1", lookup=lookup)
        measure(20, options.latency)
        # Sizes take turns, so that noise falls on all alike.
        runs = {size: [] for size in options.sizes}
        for _ in range(options.repeats):
            for size in options.sizes:
                runs[size].append(measure(size, options.latency))
    table = {
        size: {name: statistics.median(found[name] for found in all_found) for name in all_found[0]}
        for size, all_found in runs.items()
    }
    if options.json:
        print(json.dumps(table))
    else:
        print_table(table, options.repeats)


def print_table(table: dict[int, dict[str, float]], repeats: int) -> None:
    first, last = next(iter(table.values())), next(reversed(table.values()))
    names = list(first)
    print(f"Per round, medians of {repeats}; tool results of {RESULT_CHARS} characters")
    print(f"{'rounds':>8}" + "".join(f"{name:>16}" for name in names))
    for size, row in table.items():
        print(f"{size:8}" + "".join(f"{row[name]:16.2f}" for name in names))
    print(f"{'ratio':>8}" + "".join(f"{last[name] / first[name]:16.2f}" for name in names))


if __name__ == "__main__":
    main()
