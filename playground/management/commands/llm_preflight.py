"""Checks the configurations that prompts name, and others, before anything runs."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from playground.numbers import plural
from playground.services.check_configurations import CheckedConfiguration, check_configurations


class Command(BaseCommand):
    """Say of each configuration whether it could answer; the exit status is 1 where one couldn't."""

    help = (
        "Checks that each configuration that a prompt names, or that is named here, exists, is enabled and has a key "
        "that can be read. Nothing is sent to a model. Exit status: 0 all could answer, 1 one couldn't."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("configuration", nargs="*", help="slugs of further configurations")
        parser.add_argument("--ask", action="store_true", help="ask each provider whether it has the model")

    def handle(self, *args: Any, **options: Any) -> None:
        checked = check_configurations(slugs=options["configuration"], ask=options["ask"])
        for configuration in checked:
            self.stdout.write(self._line(configuration))
        if not checked:
            self.stdout.write("No prompt names a configuration. Name those to check.")
        if any(configuration.problem for configuration in checked):
            sys.exit(1)

    def _line(self, checked: CheckedConfiguration) -> str:
        named = f" ({plural(len(checked.prompts), 'prompt')})" if checked.prompts else ""
        if checked.problem:
            return f"{self.style.ERROR('✗')} {checked.slug}{named}: {checked.problem}"
        told = f", {plural(len(checked.told), 'schema')} told in the prompt" if checked.told else ""
        return f"{self.style.SUCCESS('✓')} {checked.slug}{named}: {checked.model}{told}"
