"""Runs a configuration from the command line, with the services and the driver that the pages use."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from argparse import ArgumentParser
from dataclasses import replace
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from llmcore.errors import ConfigurationError
from llmcore.prompts.variables import is_name
from llmcore.redaction import Redactor
from llmcore.runs.outcome import EXIT_CODE_OF, EXIT_CODE_WAITING, EndReason, RunStatus
from llmcore.store import secret_values
from playground.management import replacing
from playground.printing import RunPrinter
from playground.services.drive_run import drive_run
from playground.services.export_run import export_run
from playground.services.fork_run import edited_fork
from playground.services.prepare_run import refuse_unresolved
from playground.services.start_run import RunRequest, write_run


class Command(BaseCommand):
    """Start a run, print its rounds as they happen, and exit with a status that tells how it ended."""

    help = (
        "Runs a configuration here, without a worker. Exit status: 0 completed or dry run, "
        + ", ".join(f"{code} {reason.value}" for reason, code in EXIT_CODE_OF.items() if code)
        + "."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("configuration", help="slug of the configuration")
        parser.add_argument("--prompt", help="what the user says; - reads it from standard input")
        parser.add_argument("--skill", action="append", default=[], help="slug of a skill to force; repeatable")
        parser.add_argument("--snippet", action="append", default=[], help="slug of a snippet to force; repeatable")
        parser.add_argument("--tools", help="names of the tools to offer, with commas, or none; default: as configured")
        parser.add_argument("--system", help="replaces the configuration's system prompt; may be empty")
        parser.add_argument(
            "--var",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="the value of a variable {{NAME}} in prompt, override, system prompt or snippets; repeatable",
        )
        parser.add_argument("--max-rounds", type=int, help="at most so many model calls")
        parser.add_argument("--dry-run", action="store_true", help="show the first request and send nothing")
        replacing.add_options(parser)
        parser.add_argument("--raw", action="store_true", help="keep the raw requests and responses")
        parser.add_argument("--json", action="store_true", help="print the whole run as JSON, and nothing else")
        parser.add_argument(
            "--user", help="act as this user; default: as nobody, with the tools that need no permission"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        request = request_of(options)
        user = user_of(options["user"])
        try:
            point = replacing.fork_point_of(options)
            if point is not None:
                request = replace(request, prompt=point.run.prompt, fork=edited_fork(point=point, edits=()))
            for name in refuse_unresolved(request):
                self.stderr.write(f"The value of “{name}” is used nowhere.")
            run = write_run(request=request, by=user, parent=point.run if point else None)
        except ConfigurationError as error:
            raise CommandError(str(error)) from error
        printer = None if options["json"] else RunPrinter(self.stdout, self.style, Redactor(secret_values()).known)
        if printer:
            printer.started(run)
        cancelling = cancel_on_signals()
        driven = drive_run(
            run_id=run.pk,
            worker=f"llm_run:{os.getpid()}",
            cancelling=cancelling,
            watch=printer.item if printer else None,
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
            self.stdout.write(json.dumps(export_run(run=run, raw=True), ensure_ascii=False, indent=1))
        if run.status == RunStatus.AWAITING_APPROVAL:
            sys.exit(EXIT_CODE_WAITING)
        # A run that was taken over by others has no end yet, as far as this command can tell.
        sys.exit(EXIT_CODE_OF[EndReason(run.reason or EndReason.INTERRUPTED)])


def request_of(options: dict[str, Any]) -> RunRequest:
    # A fork has its prompt from the run that it goes on from.
    if (options["prompt"] is None) == (options["fork"] is None):
        raise CommandError("Say what the user says with --prompt, or go on from a run with --fork.")
    tools: tuple[str, ...] | None = None
    if options["tools"] is not None:
        names = [name.strip() for name in options["tools"].split(",")]
        tools = () if names == ["none"] else tuple(name for name in names if name)
    return RunRequest(
        configuration=options["configuration"],
        prompt=sys.stdin.read() if options["prompt"] == "-" else options["prompt"] or "",
        skills=tuple(options["skill"]),
        snippets=tuple(options["snippet"]),
        system_override=options["system"],
        tools=tools,
        variables=values_of(options["var"], forked=options["fork"] is not None),
        max_rounds=options["max_rounds"],
        dry_run=options["dry_run"],
        capture_raw=options["raw"],
        replacements=replacing.replacements_of(options),
    )


def values_of(pairs: list[str], *, forked: bool) -> dict[str, str]:
    """The values of variables, given as NAME=VALUE."""
    if pairs and forked:
        raise CommandError("The messages of a fork are not filled again: leave --var out, or start a new run.")
    values = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not is_name(name):
            raise CommandError(f"--var takes NAME=VALUE with a name like order_id, not “{pair}”.")
        values[name] = value
    return values


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
