"""Deletes what has expired, now instead of within the hour, or by other numbers of days."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from playground.numbers import plural
from playground.retention import Retention
from playground.services.purge import Kind, Purged, expired, purge

WORDS: Mapping[Kind, str] = {
    "runs": "Whole runs",
    "contents": "Contents",
    "raw": "Raw captures",
    "levels": "What the privacy level doesn't allow",
}


class Command(BaseCommand):
    """Purge runs and print of how many what was deleted."""

    help = (
        "Deletes raw captures, contents and whole runs that have expired by the site's settings, or by the days given "
        "here. Runs that are going on are never touched; usage records stay."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="count what would be deleted, and delete nothing")
        for name, what in (("raw", "raw captures"), ("content", "contents"), ("metadata", "whole runs")):
            parser.add_argument(
                f"--{name}-days", type=int, metavar="N", help=f"delete {what} of runs that ended more than N days ago"
            )

    def handle(self, *args: Any, **options: Any) -> None:
        given = {name: options[name] for name in ("raw_days", "content_days", "metadata_days")}
        try:
            retention = replace(Retention.of_site(), **{name: n for name, n in given.items() if n is not None})
        except (ValueError, ImproperlyConfigured) as error:
            raise CommandError(str(error)) from error
        now = timezone.now()
        if options["dry_run"]:
            due = expired(retention=retention, now=now)
            self._print({kind: runs.count() for kind, runs in due.items()}, "would be deleted")
            return
        purged = Purged(more=True)
        totals = dict.fromkeys(WORDS, 0)
        while purged.more:
            purged = purge(now=now, retention=retention)
            totals = {kind: count + getattr(purged, kind) for kind, count in totals.items()}
            if not purged.any:
                break
        self._print(totals, "deleted")

    def _print(self, counts: Mapping[Kind, int], done: str) -> None:
        for kind, words in WORDS.items():
            self.stdout.write(f"{words}: {done} of {plural(counts[kind], 'run')}")
