"""Builds the index that runs are searched by anew."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from playground.numbers import plural
from playground.services.reindex_runs import reindex_runs


class Command(BaseCommand):
    """Needed after rows were changed by hand, or brought in by other means than the site's own."""

    help = "Builds the search index of all runs anew. Searching and running go on meanwhile."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(f"{plural(reindex_runs(), 'run')} can be searched.")
