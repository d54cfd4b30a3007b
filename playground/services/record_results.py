"""Fetches the results that an earlier run recorded for the tools which a new one is not to run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from django.contrib.auth.models import User

from llmcore.errors import ConfigurationError
from llmcore.tools.replacement import Mode, Replacement, recorded_results
from playground.access import visible_runs
from playground.models import Run
from playground.rows import load_contents, load_steps
from playground.services.start_run import RunRequest


class NotRecorded(ConfigurationError):
    """There are no such results to be given."""


def with_recordings(request: RunRequest, *, by: User | None, earlier: RunRequest | None = None) -> RunRequest:
    """The request with its recorded results, from the run that it names and that `by` may see (nobody may see all).

    `earlier` is a request whose results are taken where that run is no longer there.
    """
    numbers = {item.run for item in request.replacements if item.mode is Mode.RECORDED}
    if not numbers:
        return request
    number = next(iter(numbers))
    runs = Run.objects.all() if by is None else visible_runs(by)
    run = runs.filter(pk=number).first() if number is not None else None
    if run is None and number is not None:
        return replace(request, replacements=_kept_results(request, number, earlier))
    return replace(request, replacements=with_recorded_results(request.replacements, run=run))


def _kept_results(request: RunRequest, number: int, earlier: RunRequest | None) -> tuple[Replacement, ...]:
    kept = {item.tool: item for item in (earlier.replacements if earlier else ()) if item.run == number}
    wanted = [item for item in request.replacements if item.mode is Mode.RECORDED]
    if any(item.tool not in kept or not kept[item.tool].results for item in wanted):
        raise NotRecorded(f"There is no run {number} that you may see.")
    return tuple(kept[item.tool] if item.mode is Mode.RECORDED else item for item in request.replacements)


def with_recorded_results(replacements: Sequence[Replacement], *, run: Run | None) -> tuple[Replacement, ...]:
    """The replacements with their results from `run`, so that nothing is missing when that is deleted.

    NotRecorded where it has none for a tool.
    """
    wanted = [item.tool for item in replacements if item.mode is Mode.RECORDED]
    if not wanted:
        return tuple(replacements)
    if run is None:
        raise NotRecorded(f"Name the run whose results are to be given for {', '.join(wanted)}.")
    if run.contents_deleted_at is not None:
        raise NotRecorded(f"The results of run {run.pk} are no longer stored.")
    found = recorded_results(load_steps(run.pk), load_contents(run.pk), wanted)
    if missing := [name for name in wanted if not found[name]]:
        raise NotRecorded(f"Run {run.pk} has no result of {', '.join(missing)}.")
    return tuple(
        replace(item, run=run.pk, results=found[item.tool]) if item.mode is Mode.RECORDED else item
        for item in replacements
    )
