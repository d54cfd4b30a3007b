"""The beginning of a run, for whoever started it a moment ago."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta

from playground.models import Run
from playground.reading.step_rows import is_live
from playground.wakeups import pauses

# A page without the first step shows it only when its scripts are there and have opened a stream: that takes longer.
PATIENCE_S = 0.15
JUST_NOW = timedelta(seconds=2)


def is_beginning(run: Run, *, now: datetime) -> bool:
    """Whether the first step of the run is about to come."""
    return not run.last_sequence and is_live(run) and now - run.created_at <= JUST_NOW


def await_first_step(run: Run, *, pause: Callable[[], None] | None = None) -> None:
    """Give the first step of a run that is beginning a moment to come, and `run` what came with it. `pause` is called
    between two looks; by default it ends when something happened to the run."""
    begun = Run.objects.filter(last_sequence__gt=0)
    deadline = time.monotonic() + PATIENCE_S
    with nullcontext(pause) if pause else pauses(run.pk) as wait:
        while time.monotonic() < deadline:
            wait()
            with suppress(Run.DoesNotExist):
                run.refresh_from_db(from_queryset=begun)
                return
