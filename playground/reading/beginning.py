"""The beginning of a run, for whoever started it a moment ago."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from playground.models import Run
from playground.reading.step_rows import is_live

# A page without the first step shows it only when its scripts are there and have opened a stream: that takes longer.
PATIENCE_S = 0.15
LOOK_S = 0.005
JUST_NOW = timedelta(seconds=2)


def is_beginning(run: Run, *, now: datetime) -> bool:
    """Whether the first step of the run is about to come."""
    return not run.last_sequence and is_live(run) and now - run.created_at <= JUST_NOW


def await_first_step(run: Run, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Give the first step of a run that is beginning a moment to come, and `run` what came with it."""
    begun = Run.objects.filter(pk=run.pk, last_sequence__gt=0)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        sleep(LOOK_S)
        if begun.exists():
            run.refresh_from_db()
            return
