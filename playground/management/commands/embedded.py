"""Runs the whole product as one process tree: web server, worker and demo model, with nothing to set up."""

from __future__ import annotations

import fcntl
import secrets
import signal
import socket
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.request import ProxyHandler, build_opener

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.core.management.base import BaseCommand
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import QuerySet

from config.env import environment_with
from demo.runs import DEMO_RUNS, start_demo_runs
from demo.services import load_demo
from llmcore.enrollment import detect
from llmcore.runs.outcome import RunStatus
from playground.models import Run
from playground.process_tree import ProcessTree

LOOPBACK = "127.0.0.1"
USERNAME = "admin"
MODEL_PORT = 8766
# Without what is easily misread or not selected by a double click.
LEGIBLE = "abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
# How long to wait for the first page, and for the demo runs; and how often to look.
START_S = 60.0
DEMO_RUNS_S = 180.0
LOOK_S = 0.2
# How long the start may wait for model servers on this machine.
DETECT_S = 1.0
WORKER = "-m celery -A config worker --pool threads --concurrency 4 --loglevel INFO --without-gossip --without-mingle"
# A page with live updates keeps its connection open: it isn't waited for at the end.
WEB = "-m uvicorn config.asgi:application --lifespan off --no-access-log --timeout-graceful-shutdown 2"


class Stopped(Exception):
    """Somebody asked for the end."""


class Command(BaseCommand):
    """Start everything, say where it is, and keep watch until Ctrl-C."""

    help = "Runs the playground with its worker and a scripted demo model. Ctrl-C stops all of it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default=LOOPBACK, help="address to listen on (default: %(default)s)")
        parser.add_argument("--port", type=int, default=8000, help="port to listen on (default: %(default)s)")
        parser.add_argument(
            "--model-port", type=int, default=MODEL_PORT, help="port of the demo model (default: %(default)s)"
        )
        parser.add_argument("--no-detect", action="store_true", help="don't look for model servers and API keys")

    def handle(self, *args: Any, **options: Any) -> None:
        # Counted, not set in an event: a signal may come while this thread holds the event's lock, and wait for it.
        self._asked_to_stop = 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._ask_to_stop)
        with only_one():
            try:
                self._run(**{name: options[name] for name in ("host", "port", "model_port", "no_detect")})
            except Stopped:
                self._say("Stopped.")

    def _run(self, *, host: str, port: int, model_port: int, no_detect: bool) -> None:
        self._migrate()
        admin = self._admin()
        model_port, web_port = free_port(LOOPBACK, model_port), free_port(host, port)
        model_url = f"http://{LOOPBACK}:{model_port}/v1"
        load_demo(demo_model_url=model_url)
        tree = ProcessTree(
            folder=settings.BASE_DIR,
            log_folder=settings.DATA_DIR / "logs",
            environment=environment_with(
                DEMO_MODEL_URL=model_url, ALLOWED_HOSTS=",".join({*settings.ALLOWED_HOSTS, host}), PYTHONUNBUFFERED="1"
            ),
        )
        try:
            self._say(f"Starting web server, worker and demo model (logs: {settings.DATA_DIR / 'logs'}) …")
            tree.start("model", ["manage.py", "demo_model", "--port", str(model_port)])
            tree.start("worker", WORKER.split())
            if not no_detect:
                self._detect()
            tree.start("web", [*WEB.split(), "--host", host, "--port", str(web_port)])
            url = f"http://{LOOPBACK if host == '0.0.0.0' else host}:{web_port}"
            self._wait(tree, lambda: answers(f"{url}/admin/login/"), timeout_s=START_S, what="the login page to answer")
            self._demo_runs(tree, admin)
            taken = "" if web_port == port else f"   (port {port} is taken)"
            self._say(self.style.SUCCESS(f"Ready: {url}/") + f"{taken}   Ctrl-C stops everything.")
            while True:
                self._look(tree)
        finally:
            tree.stop(hurry=lambda: self._asked_to_stop > 1)

    def _migrate(self) -> None:
        executor = MigrationExecutor(connection)
        if plan := executor.migration_plan(executor.loader.graph.leaf_nodes()):
            self._say(f"Preparing the database ({len(plan)} migrations) …")
            call_command("migrate", verbosity=0, interactive=False)

    def _admin(self) -> User:
        """The first superuser; where there is none yet, a new one whose password is shown this once."""
        if (user := User.objects.filter(is_superuser=True, is_active=True).order_by("pk").first()) is not None:
            return user
        password = "".join(secrets.choice(LEGIBLE) for _ in range(16))
        user = User.objects.create_superuser(USERNAME, password=password)
        self._say(
            f"Log in as {self.style.SUCCESS(USERNAME)}, password {self.style.SUCCESS(password)}  (shown only now)"
        )
        return user

    def _detect(self) -> None:
        """Enter what this machine has beside the demo, before the web server is there to be taken for a model's."""
        detection = detect(timeout_s=DETECT_S)
        for enrolled in detection.enrolled:
            if enrolled.new_models:
                self._say(
                    f"Found {enrolled.name} {enrolled.found.about}, ready for new runs: {some(enrolled.new_models)}"
                )
        for problem in detection.problems:
            self._say(self.style.WARNING(problem))

    def _demo_runs(self, tree: ProcessTree, admin: User) -> None:
        """The first start shows what runs look like, with real ones."""
        if Run.objects.exists():
            return
        self._say(f"Running {len(DEMO_RUNS)} demo runs …")
        start_demo_runs(by=admin)
        try:
            self._wait(tree, lambda: not under_way().exists(), timeout_s=DEMO_RUNS_S, what="the demo runs to end")
        except CommandError as error:
            # The pages work all the same, and show what hangs.
            self.stderr.write(self.style.WARNING(str(error)))

    def _wait(self, tree: ProcessTree, ready: Callable[[], bool], *, timeout_s: float, what: str) -> None:
        deadline = time.monotonic() + timeout_s
        while not ready():
            if time.monotonic() > deadline:
                raise CommandError(f"Waited {timeout_s:.0f} seconds for {what}, in vain. The logs say more.")
            self._look(tree)

    def _look(self, tree: ProcessTree) -> None:
        """Let a moment pass. Stopped: somebody asked for the end; CommandError: a child has ended by itself."""
        time.sleep(LOOK_S)
        if self._asked_to_stop:
            self._say("Stopping …")
            raise Stopped
        if (child := tree.dead()) is not None:
            lines = "\n".join(f"  {line}" for line in child.last_lines())
            raise CommandError(
                f"The {child.name} process has ended by itself (code {child.process.returncode}), so everything is "
                f"stopped. The end of {child.log}:\n{lines}"
            )

    def _ask_to_stop(self, *_: Any) -> None:
        self._asked_to_stop += 1

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def some(labels: Sequence[str], most: int = 6) -> str:
    """The first of `labels`, and how many there are beside them."""
    more = f" and {len(labels) - most} more" if len(labels) > most else ""
    return ", ".join(labels[:most]) + more


def under_way() -> QuerySet[Run]:
    return Run.objects.filter(status__in=(RunStatus.QUEUED, RunStatus.RUNNING))


def answers(url: str) -> bool:
    """Whether `url` gives a page. No proxy of the environment stands between."""
    try:
        with build_opener(ProxyHandler({})).open(url, timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def free_port(host: str, wanted: int) -> int:
    """`wanted` if it is free on `host`, else any other."""
    for port in (wanted, 0):
        with socket.socket() as listener:
            # As servers do: a connection that has just been closed doesn't count as taken.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                listener.bind((host, port))
                return int(listener.getsockname()[1])
    raise CommandError(f"This machine has no address {host} to listen on.")


@contextmanager
def only_one() -> Iterator[None]:
    """Refuse a second process tree on the same data: two would drive each other mad over ports and the database."""
    with (settings.DATA_DIR / "embedded.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandError(f"It is already running with the data in {settings.DATA_DIR}.") from None
        yield
