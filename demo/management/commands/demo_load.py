"""Brings the demo into this site."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from demo.runs import start_demo_runs
from demo.services import load_demo


class Command(BaseCommand):
    """`demo_load`: may be repeated; it never touches what was loaded before."""

    help = "Loads the demo shop and configurations that work on it. What was loaded before is left as it is."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--model-url",
            default=settings.DEMO_MODEL_URL,
            help="Base URL of the demo model as demo_model prints it (default: %(default)s)",
        )
        parser.add_argument("--run-as", metavar="NAME", help="also start the demo runs, as runs of this user")

    def handle(self, *args: Any, **options: Any) -> None:
        new = load_demo(demo_model_url=options["model_url"])
        self.stdout.write(f"Loaded {len(new)} new items." if new else "The demo is loaded already.")
        if options["run_as"]:
            user = User.objects.filter(username=options["run_as"], is_active=True).first()
            if user is None:
                raise CommandError(f"There is no active user “{options['run_as']}”.")
            self.stdout.write(f"Started {start_demo_runs(by=user)} demo runs.")
