"""Runs a configuration from the command line, with the services and the driver that the pages use."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from dataclasses import replace
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from llmcore.errors import ConfigurationError
from llmcore.prompts.variables import is_name
from llmcore.runs.outcome import EXIT_CODE_OF
from playground.management import replacing, running
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
        user = running.user_of(options["user"])
        try:
            point = replacing.fork_point_of(options)
            if point is not None:
                request = replace(request, prompt=point.run.prompt, fork=edited_fork(point=point, edits=()))
            for name in refuse_unresolved(request):
                self.stderr.write(f"The value of “{name}” is used nowhere.")
            run = write_run(request=request, by=user, parent=point.run if point else None)
        except ConfigurationError as error:
            raise CommandError(str(error)) from error
        running.drive_here(self, run, worker="llm_run", as_json=options["json"])


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
