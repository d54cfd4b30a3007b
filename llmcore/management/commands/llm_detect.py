"""Looks for models that this site could use, and enters them."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from llmcore.enrollment import Enrolled, detect


class Command(BaseCommand):
    """`llm_detect`: says what it found and what it entered; running it again changes nothing."""

    help = (
        "Looks for model servers on this machine (Ollama, LM Studio, llama.cpp, vLLM and others at their usual ports) "
        "and for API keys in the environment, and enters them with their models, each ready for new runs. What was "
        "entered once is not entered again: changes and deletions in the admin stay."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--timeout", type=float, default=3.0, help="seconds to wait for servers (default: %(default)s)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        detection = detect(timeout_s=options["timeout"])
        for enrolled in detection.enrolled:
            self._tell(enrolled)
        silent = [look for look in detection.looks if look.provider is None]
        if silent:
            self.stdout.write(
                "Not found: " + ", ".join(f"{look.place.name} at {look.place.address}" for look in silent)
            )
        if options["verbosity"] > 1:
            for look in silent:
                self.stdout.write(f"  {look.place.address}: {look.reason}")
        for problem in detection.problems:
            self.stdout.write(self.style.WARNING(problem))
        if not detection.enrolled:
            self.stdout.write("No model server answers on this machine, and no known API key is in the environment.")

    def _tell(self, enrolled: Enrolled) -> None:
        found = enrolled.found
        entered = f"{len(enrolled.new_models)} entered now" if enrolled.new_models else "nothing new"
        self.stdout.write(
            self.style.SUCCESS(f"{enrolled.name}, {found.about}") + f": {len(found.models)} models, {entered}"
        )
        for label in enrolled.new_models:
            self.stdout.write(f"  {label}")
        for problem in enrolled.problems:
            self.stdout.write(self.style.WARNING(f"  {problem}"))
