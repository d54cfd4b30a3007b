"""What it takes to import the runtime: `python -m bench.imports`.

Each import is in a fresh process that finds its bytecode, as an installed package does, and they take turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

# What a script that runs the loop imports is the third; the last is there from the first tool call on.
IMPORTS = ("httpx, asyncio", "llmcore", "llmcore.runs.loop", "llmcore.runs.loop, jsonschema")
PROBE = """
import time
started, cpu = time.perf_counter(), time.process_time()
import {}
print(cpu, time.process_time() - cpu, time.perf_counter() - started)
"""


def milliseconds(modules: str, bytecode: str) -> list[float]:
    """CPU time of the interpreter's own start, CPU time of the import, wall time of the import."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    printed = subprocess.check_output([sys.executable, "-c", PROBE.format(modules)], env=environment, text=True)
    return [float(seconds) * 1000 for seconds in printed.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=21)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as bytecode:
        for modules in IMPORTS:
            milliseconds(modules, bytecode)
        repeats = [{modules: milliseconds(modules, bytecode) for modules in IMPORTS} for _ in range(options.repeats)]
    start = statistics.median(found[0] for repeat in repeats for found in repeat.values())
    print(f"Milliseconds, {options.repeats} fresh processes each; the interpreter's own start is {start:.0f} more")
    print(f"{'':34}{'cpu, median':>14}{'cpu, least':>14}{'wall, median':>14}")
    for modules in IMPORTS:
        cpu, wall = ([repeat[modules][column] for repeat in repeats] for column in (1, 2))
        print(f"{modules:34}{statistics.median(cpu):14.0f}{min(cpu):14.0f}{statistics.median(wall):14.0f}")


if __name__ == "__main__":
    main()
