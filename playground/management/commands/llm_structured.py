"""Runs a prompt of a pack from the command line, as a run that the pages show like every other."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from llmcore.errors import ConfigurationError
from llmcore.messages import Message
from llmcore.prompts.variables import is_name
from llmcore.providers.json_text import unfenced
from llmcore.structured.expected import MAX_REPAIRS
from llmcore.structured.media import IMAGE_TYPES, media_type_of
from llmcore.structured.packs import site_prompts
from llmcore.trace import StepKind
from playground.loop_thread import Recorded, Watched
from playground.management import running
from playground.services.prepare_run import refuse_unresolved
from playground.services.start_run import RunRequest, write_run
from playground.structured_run import GivenInput, StructuredRun


class Command(BaseCommand):
    """Complete a prompt with its inputs, or list the prompts of this site."""

    help = "Runs a prompt of a pack here, without a worker; without a prompt it lists them. Exit status as of llm_run."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("prompt", nargs="?", help="name of the prompt, such as pack.name")
        parser.add_argument("--configuration", help="slug of the configuration; default: that of the prompt")
        parser.add_argument(
            "--input",
            action="append",
            default=[],
            metavar="NAME=FILE",
            help="what an input is given; - reads it from standard input; repeatable",
        )
        parser.add_argument("--var", action="append", default=[], metavar="NAME=VALUE", help="a variable; repeatable")
        parser.add_argument("--schema", default="", help="name of another response schema than the prompt's")
        parser.add_argument("--session", default="", help="what this is part of, for the manifest")
        parser.add_argument("--repairs", type=int, default=1, help=f"repairs of a wrong answer, 0 to {MAX_REPAIRS}")
        parser.add_argument("--output", metavar="FILE", help="write the valid answer there, byte for byte")
        parser.add_argument("--dry-run", action="store_true", help="show the request and send nothing")
        parser.add_argument("--raw", action="store_true", help="keep the raw requests and responses")
        parser.add_argument("--json", action="store_true", help="print the whole run as JSON, and nothing else")
        parser.add_argument("--user", help="act as this user; default: as nobody")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["prompt"] is None:
            self._list()
            return
        try:
            request = request_of(options)
            refuse_unresolved(request)
            run = write_run(request=request, by=running.user_of(options["user"]))
        except ConfigurationError as error:
            raise CommandError(str(error)) from error
        valid = ValidAnswer()
        run = running.driven_here(self, run, worker="llm_structured", as_json=options["json"], watch=valid.item)
        if options["output"] and valid.data is not None:
            Path(options["output"]).write_bytes(valid.data)
        running.exit_as(run)

    def _list(self) -> None:
        for prompt in site_prompts.prompts().values():
            self.stdout.write(f"{self.style.MIGRATE_LABEL(prompt.id)}  {prompt.title}")
            for given in prompt.inputs:
                needed = "" if given.required else ", optional"
                self.stdout.write(f"  --input {given.name}=FILE  {given.media_type}{needed}")
            for name, default in prompt.variables.items():
                self.stdout.write(f"  --var {name}=VALUE  {'needed' if default is None else f'default: {default}'}")


class ValidAnswer:
    """Keeps the bytes of the valid answer as the model wrote them; a site may store them otherwise, or not at all."""

    def __init__(self) -> None:
        self.data: bytes | None = None
        self._text = ""

    def item(self, item: Watched) -> None:
        if not isinstance(item, Recorded):
            return
        if item.step.kind is StepKind.RESPONSE and (message := item.contents.get(item.step.data["message"])):
            self._text = Message.from_json(message).text
        elif item.step.kind is StepKind.VALIDATION and item.step.data["valid"]:
            self.data = unfenced(self._text)[0].encode()


def request_of(options: dict[str, Any]) -> RunRequest:
    prompt = site_prompts.prompt(options["prompt"])
    configuration = options["configuration"] or prompt.configuration
    if not configuration:
        raise CommandError(f"The prompt “{prompt.id}” names no configuration of its own: use --configuration.")
    return RunRequest(
        configuration=configuration,
        prompt="",
        variables=dict(pair_of(given, "--var", "VALUE") for given in options["var"]),
        structured=StructuredRun(
            prompt=prompt.id,
            inputs=tuple(input_of(given) for given in options["input"]),
            schema=options["schema"],
            session=options["session"],
            repairs=options["repairs"],
        ),
        dry_run=options["dry_run"],
        capture_raw=options["raw"],
    )


def input_of(given: str) -> GivenInput:
    name, file = pair_of(given, "--input", "FILE")
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        if (found := media_type_of(data)) in IMAGE_TYPES:
            return GivenInput.of_picture(name=name, data=data, media_type=found, origin=file)
        return GivenInput(name=name, text=data.decode("utf-8"), origin=file)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"The input “{name}” can't be read: {error}") from error


def pair_of(given: str, option: str, what: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals or not is_name(name):
        raise CommandError(f"{option} takes NAME={what} with a name like npcs, not “{given}”.")
    return name, value
