"""The runs of a comparison: each with its letter, what was planned for it, and what of it can't be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from playground.access import visible_runs
from playground.deletions import contents_deletion, redaction
from playground.models import Run
from playground.reading.plan import Plan, read_plan
from playground.reading.step_rows import is_live

LETTERS = "ABCDEF"
MOST = len(LETTERS)


@dataclass(frozen=True)
class Side:
    """A run in a comparison, under its letter."""

    letter: str
    run: Run

    @cached_property
    def plan(self) -> Plan:
        return read_plan(self.run)

    @cached_property
    def tags(self) -> list[str]:
        return [tag.name for tag in self.run.tags.all()]

    @property
    def live(self) -> bool:
        return is_live(self.run)

    @property
    def lacks(self) -> str:
        """What of the run is not there to be compared, in a sentence; empty where all is."""
        if gone := contents_deletion(self.run):
            return f"{gone} Settings, figures and times are compared; texts are where their digests tell."
        if self.live:
            return "The run is going on: what it did so far is compared. Reload the page to see more."
        if self.run.plan is None:
            return "The run ended before its prompt was assembled, so it has no prompt and no settings to compare."
        if self.run.dry_run:
            return "It was a dry run: a prompt, and nothing that was sent."
        return redaction(self.run)


def load_sides(pks: Sequence[int], *, user: Any) -> list[Side]:
    """The runs `pks` in this order. LookupError where there is one that `user` may not see."""
    found = visible_runs(user).select_related("user").prefetch_related("tags")
    runs = {run.pk: run for run in found.filter(pk__in=pks)}
    if missing := [pk for pk in pks if pk not in runs]:
        raise LookupError(f"no run {missing[0]}")
    return [Side(letter, runs[pk]) for letter, pk in zip(LETTERS, pks, strict=False)]


def run_before(run: Run, *, user: Any) -> int | None:
    """The run of the same configuration that `user` may see and that was started last before `run`."""
    if run.configuration_id is None:
        return None
    runs = visible_runs(user).filter(configuration_id=run.configuration_id, pk__lt=run.pk)
    return runs.order_by("-pk").values_list("pk", flat=True).first()
