"""Asks a provider for its models."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from llmcore.configuration import LanguageModel
from llmcore.enrollment.connection import Connection, add_models, connect
from llmcore.models import Provider
from llmcore.providers.listing import nearest


class Command(BaseCommand):
    """`llm_models [PROVIDER] [--add NAME …]`: tests address and key, lists the models, enters those that are named."""

    help = "Asks providers for their models, which tests the address and the key without calling a model."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("provider", nargs="?", help="The slug of a provider; all enabled ones if left out.")
        parser.add_argument("--add", nargs="+", default=[], metavar="NAME", help="Enter these models of the provider.")

    def handle(self, *args: Any, **options: Any) -> None:
        slug, wanted = options["provider"], options["add"]
        if wanted and not slug:
            raise CommandError("Say of which provider the models are.")
        rows = Provider.objects.filter(slug=slug) if slug else Provider.objects.filter(enabled=True)
        if not rows:
            raise CommandError(f"There is no provider {slug!r}." if slug else "There is no enabled provider.")
        failed = False
        for row in rows:
            connection = connect(row)
            failed = failed or bool(connection.problem)
            self.stdout.write(f"{row.name}: {connection.problem or answered(connection)}")
            if wanted and not connection.problem:
                self._add(row, connection, wanted)
            elif slug:
                for model in connection.models:
                    self.stdout.write(f"  {described(model)}")
        if failed:
            raise SystemExit(1)

    def _add(self, row: Provider, connection: Connection, wanted: list[str]) -> None:
        names = [model.name for model in connection.models]
        for name in wanted:
            if connection.named(name) is None:
                near = nearest(name, names)
                meant = f" Did you mean {' or '.join(near)}?" if near else ""
                raise CommandError(f"{row.name} lists no model {name!r}.{meant}")
        added = add_models(row, tuple(model for model in connection.models if model.name in wanted))
        self.stdout.write(f"  entered: {', '.join(model.name for model in added) or 'nothing new'}")


def answered(connection: Connection) -> str:
    count = len(connection.models)
    return f"it answers and lists {count:,} model{'' if count == 1 else 's'}"


def described(model: LanguageModel) -> str:
    window = f", window {model.context_window:,}" if model.context_window else ""
    price = model.prices
    cost = "" if price.input is None else f", ${price.input.normalize():f} / ${price.output or 0:f} per million"
    cost += "".join(f", other prices over {tier.above:,} tokens" for tier in price.tiers)
    return f"{model.name}{window}{cost}"
