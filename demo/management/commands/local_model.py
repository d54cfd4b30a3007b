"""Serves a small real model on this machine, and enters it into the site."""

from __future__ import annotations

import signal
import threading
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from demo.local_model.registration import register_local_model
from demo.local_model.server import CONTEXT_WINDOW, HOST, MODEL_NAME, LocalModelMissing, serve_model
from llmcore.providers.scripted.server import listen

# How often to look whether the database is there.
LOOK_S = 0.5


class Command(BaseCommand):
    """`local_model`: runs until it gets SIGINT or SIGTERM."""

    help = "Serves a small real language model over the API of OpenAI Chat Completions, and enters it into this site."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--port", type=int, default=8767, help="port, another free one if it is taken (default: %(default)s)"
        )
        parser.add_argument("--threads", type=int, default=1, help="threads that compute (default: %(default)s)")

    def handle(self, *args: Any, **options: Any) -> None:
        stopping = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: stopping.set())
        verbose = options["verbosity"] > 1
        try:
            with serve_model(port=free_port(options["port"]), threads=options["threads"], verbose=verbose) as url:
                self._say(f"Local model on {url}: {MODEL_NAME}, window {CONTEXT_WINDOW} tokens. Ctrl-C stops it.")
                self._register(url, stopping)
                while not stopping.wait(LOOK_S):
                    pass
        except LocalModelMissing as error:
            raise CommandError(str(error)) from error
        self._say("Stopped.")

    def _register(self, url: str, stopping: threading.Event) -> None:
        """Enter the model as soon as there is a database to enter it into: the site may be started after it."""
        if not database_is_ready():
            self._say(f"There is no database yet with the data in {settings.DATA_DIR}: start the site with `make run`.")
            while not database_is_ready():
                if stopping.wait(LOOK_S):
                    return
        provider = register_local_model(url)
        if provider.base_url == url:
            self._say(f"Its configuration is ready for new runs (provider “{provider}”).")
        else:
            self.stderr.write(
                f"Somebody changed the address of the provider “{provider}”: it stays {provider.base_url}."
            )
        connection.close()

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def database_is_ready() -> bool:
    executor = MigrationExecutor(connection)
    return not executor.migration_plan(executor.loader.graph.leaf_nodes())


def free_port(wanted: int) -> int:
    """`wanted` if it is free, else 0, which is any other."""
    try:
        listen(HOST, wanted).close()
    except OSError:
        return 0
    return wanted
