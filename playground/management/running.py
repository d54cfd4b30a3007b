"""Drives a run in the process of a command: prints it as it happens, and exits with the status of its end."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from llmcore.runs.outcome import EXIT_CODE_OF, EXIT_CODE_WAITING, EndReason, RunStatus
from llmcore.store import site_redactor
from playground.loop_thread import Watched
from playground.models import Run
from playground.printing import RunPrinter
from playground.services.drive_run import drive_run
from playground.services.export_run import export_run


def drive_here(command: BaseCommand, run: Run, *, worker: str, as_json: bool) -> NoReturn:
    """Drive `run` to its end, or until it waits for a decision, and exit."""
    exit_as(driven_here(command, run, worker=worker, as_json=as_json))


def driven_here(
    command: BaseCommand, run: Run, *, worker: str, as_json: bool, watch: Callable[[Watched], None] | None = None
) -> Run:
    """The run as it ended; its rounds were printed as they happened or, `as_json`, the whole of it at the end. `watch`
    gets what it recorded, too."""
    printer = None if as_json else RunPrinter(command.stdout, command.style, site_redactor().known)
    if printer:
        printer.started(run)
    driven = drive_run(
        run_id=run.pk,
        worker=f"{worker}:{os.getpid()}",
        cancelling=cancel_on_signals(),
        watch=told_to(printer.item if printer else None, watch),
    )
    if not driven:
        raise CommandError(f"Run {run.pk} was taken by a worker before it could be driven here.")
    run.refresh_from_db()
    if printer:
        printer.ended(run)
        if printer.closed:
            # Else Python complains about what it can't flush any more.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    else:
        command.stdout.write(json.dumps(export_run(run=run, raw=True), ensure_ascii=False, indent=1))
    return run


def told_to(*watches: Callable[[Watched], None] | None) -> Callable[[Watched], None]:
    def tell(item: Watched) -> None:
        for watch in filter(None, watches):
            watch(item)

    return tell


def exit_as(run: Run) -> NoReturn:
    """Exit with the status that tells how `run` ended."""
    if run.status == RunStatus.AWAITING_APPROVAL:
        sys.exit(EXIT_CODE_WAITING)
    # A run that was taken over by others has no end yet, as far as this command can tell.
    sys.exit(EXIT_CODE_OF[EndReason(run.reason or EndReason.INTERRUPTED)])


def user_of(name: str | None) -> User | None:
    """The user who logs in as `name`, whatever this site's model of users is."""
    if name is None:
        return None
    users = get_user_model()
    user: User | None = users._default_manager.filter(**{users.USERNAME_FIELD: name, "is_active": True}).first()
    if user is None:
        raise CommandError(f"There is no active user “{name}”.")
    return user


def cancel_on_signals() -> threading.Event:
    """Set by Ctrl-C or SIGTERM, once; a second one ends this process at once."""
    cancelling = threading.Event()

    def cancel(number: int, *_: Any) -> None:
        cancelling.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, cancel)
    return cancelling
