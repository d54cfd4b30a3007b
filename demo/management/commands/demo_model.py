"""Serves the demo's scripted models."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from llmcore.providers.scripted import ScriptedModel, load_scenarios
from llmcore.providers.scripted.server import base_url, listen, server_for

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"


class Command(BaseCommand):
    """`demo_model`: runs until it gets SIGINT or SIGTERM."""

    help = "Serves the demo's scripted models over the API of OpenAI Chat Completions."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
        parser.add_argument("--port", type=int, default=8766, help="port, 0 for any free one (default: %(default)s)")

    def handle(self, *args: Any, **options: Any) -> None:
        model = ScriptedModel(load_scenarios(SCENARIOS), keep_requests=0)
        try:
            listener = listen(options["host"], options["port"])
        except OSError as error:
            raise CommandError(f"Can't listen on {options['host']}:{options['port']}: {error.strerror}.") from error
        # After its orderly end the server raises the signal that ended it again; here that is no news.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        with listener:
            self.stdout.write(f"Demo model on {base_url(listener)} with {', '.join(sorted(model.scenarios))}.")
            self.stdout.flush()
            server_for(model).run(sockets=[listener])
