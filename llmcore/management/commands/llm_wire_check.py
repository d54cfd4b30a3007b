"""Replays cases of provider behavior against the adapters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from llmcore.errors import ConfigurationError
from llmcore.management.wire_check.replay import load_cases, load_tools, run_cases
from llmcore.management.wire_check.storage import storage_differences


class Command(BaseCommand):
    """`llm_wire_check --cases FILE`: one line for each case, then how many passed; exit 1 if one failed."""

    help = (
        "Replays wire cases from a real server on this machine through the adapters and says what differs. "
        "The tools that the cases name are read from tools.json beside the file."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--cases", type=Path, required=True, help="A file with one case, a JSON object, per line.")
        parser.add_argument("--adapter", help="Only the cases of this wire format.")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["cases"]
        try:
            cases = load_cases(path)
            tools = load_tools(path.with_name("tools.json"))
        except (OSError, ConfigurationError) as error:
            raise CommandError(str(error)) from error
        if name := options["adapter"]:
            cases = [case for case in cases if case["adapter"] == name]
            if not cases:
                raise CommandError(f"No case is for the adapter {name!r}.")
        passed = failed = skipped = 0
        for verdict in run_cases(cases, tools, storage_differences):
            self.stdout.write(str(verdict))
            skipped += verdict.skipped is not None
            failed += verdict.failed
            passed += verdict.skipped is None and not verdict.failed
        self.stdout.write(f"{passed} passed, {failed} failed, {skipped} skipped")
        if failed:
            raise SystemExit(1)
