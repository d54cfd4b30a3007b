"""How a recorded run grows with its rounds: `python -m bench.growth`.

Each run is driven as a worker drives it, against a model server on loopback, into a SQLite file of its own, and its
page is fetched as a browser fetches it. Everything per round should stay the same from 50 to 500 rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

SIZES = (50, 100, 200, 500)
RESULT_CHARS = 1_000


def setup(folder: str) -> None:
    os.environ["DATA_DIR"] = folder
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def prepare(url: str) -> str:
    """The rows that a run needs; returns the configuration's slug."""
    from llmcore.models import Configuration, LanguageModel, Provider
    from llmcore.tools.base import Tool
    from llmcore.tools.registry import site_tools

    parameters = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}

    def lookup(key: str) -> str:
        return f"{key}: ".ljust(RESULT_CHARS, ".")

    site_tools.register(
        Tool(name="lookup", description="Look up.", parameters=parameters, run=lookup, group="bench"), place="bench"
    )
    provider = Provider.objects.create(
        slug="bench", name="Bench", adapter="openai_compat", base_url=url, allow_private_hosts=True
    )
    model = LanguageModel.objects.create(provider=provider, name="bench", supports_streaming=False)
    Configuration.objects.create(slug="bench", name="Bench", model=model, tool_groups=["bench"], max_rounds=1000)
    return "bench"


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU milliseconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000


def measure(slug: str, rounds: int) -> dict[str, float]:
    from django.contrib.auth import get_user_model
    from django.db import connection
    from django.test import Client
    from django.urls import reverse

    from playground.models import Run
    from playground.services.drive_run import drive_run
    from playground.services.start_run import RunRequest, write_run

    user, _ = get_user_model().objects.get_or_create(username="bench", is_staff=True, is_superuser=True)
    run = write_run(request=RunRequest(configuration=slug, prompt=f"rounds={rounds}", max_rounds=rounds), by=user)
    wall, cpu = timed(lambda: drive_run(run_id=run.pk, worker="bench"))
    run.refresh_from_db()
    if (run.reason, run.rounds) != ("completed", rounds):
        raise RuntimeError(f"not the run that was to be measured: {run.reason} after {run.rounds} rounds, {run.detail}")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT sum(length(data)) FROM playground_runstep WHERE run_id = %s)"
            " + (SELECT sum(length(value)) FROM playground_runcontent WHERE run_id = %s)",
            [run.pk, run.pk],
        )
        stored = cursor.fetchone()[0]
    client = Client()
    client.force_login(user)
    address = reverse("playground:run", args=[run.pk])
    client.get(address)
    pages: list[bytes] = []
    page_wall, page_cpu = timed(lambda: pages.append(client.get(address, headers={"host": "localhost"}).content))
    Run.objects.filter(pk=run.pk).delete()
    return {
        "drive ms": wall / rounds,
        "drive cpu ms": cpu / rounds,
        "stored bytes": stored / rounds,
        "page bytes": len(pages[0]) / rounds,
        "page ms": page_wall / rounds,
        "page cpu ms": page_cpu / rounds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        subprocess.Popen(
            [sys.executable, "-m", "bench.model_server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server,
    ):
        assert server.stdout is not None and server.stdin is not None
        setup(folder)
        from django.test import override_settings

        with override_settings(LLM_MAX_ROUNDS=1000):
            slug = prepare(f"http://127.0.0.1:{int(server.stdout.readline())}/v1")
            measure(slug, 20)
            # Sizes take turns, so that noise falls on all alike.
            runs = {size: [] for size in SIZES}
            for _ in range(options.repeats):
                for size in SIZES:
                    runs[size].append(measure(slug, size))
        server.stdin.close()
    table = {
        size: {name: statistics.median(found[name] for found in all_found) for name in all_found[0]}
        for size, all_found in runs.items()
    }
    if options.json:
        print(json.dumps(table))
        return
    names = list(table[SIZES[0]])
    print(f"Per round, medians of {options.repeats}; tool results of {RESULT_CHARS} characters")
    print(f"{'rounds':>8}" + "".join(f"{name:>16}" for name in names))
    for size, row in table.items():
        print(f"{size:8}" + "".join(f"{row[name]:16.2f}" for name in names))
    first, last = table[SIZES[0]], table[SIZES[-1]]
    print(f"{'ratio':>8}" + "".join(f"{last[name] / first[name]:16.2f}" for name in names))


if __name__ == "__main__":
    main()
