"""What tests of budgets share: needs of calls, and processes of their own that reserve."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

from llmcore.budgets.base import Amounts, BudgetExceeded, Need

ROOT = Path(__file__).resolve().parent.parent.parent


def need(tokens: int = 100, cost: str | None = "0", *, sent: int = 0) -> Need:
    """Of a call that takes at most so much; `sent` are the tokens of its prompt."""
    price = None if cost is None else Decimal(cost)
    return Need(
        model="Mini",
        most=Amounts(requests=1, tokens=tokens, cost=price),
        sent=Amounts(requests=1, tokens=sent, cost=None if cost is None else Decimal(0)),
    )


def used(tokens: int = 0, cost: str = "0") -> Amounts:
    return Amounts(requests=1, tokens=tokens, cost=Decimal(cost))


class Caller:
    """A process that waits for a line and then reserves, as often as it is told, with or without settling; it says how
    many of its calls fitted."""

    def __init__(self, environment: Mapping[str, str], **options: object) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.llmcore.budget_callers",
                *(f"--{name}={value}" for name, value in options.items()),
            ],
            cwd=ROOT,
            env={**os.environ, **environment, "DJANGO_SETTINGS_MODULE": "config.settings"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--settle", type=int, default=-1)
    parser.add_argument("--run", type=int, default=None)
    parser.add_argument("--user", type=int, default=None)
    arguments = parser.parse_args()
    import django

    django.setup()
    from llmcore.budgets.database import DatabaseBudgets

    store = DatabaseBudgets(configuration_id=None, user_id=arguments.user, run_id=arguments.run)
    fitted = 0
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(arguments.times):
        token = uuid4().hex
        try:
            store.reserve(token, need(arguments.tokens), within_s=600)
        except BudgetExceeded:
            continue
        fitted += 1
        if arguments.settle >= 0:
            store.settle(token, used(arguments.settle))
    print(fitted, flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
