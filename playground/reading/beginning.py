"""The beginning of a run, for whoever started it a moment ago."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from playground.models import Run
from playground.reading.step_rows import is_live

# A page without the first step shows it only when its scripts are there and have opened a stream: that takes longer.
PATIENCE_S = 0.15
LOOK_S = 0.01
JUST_NOW = timedelta(seconds=2)


def await_first_step(run: Run, *, now: datetime, sleep: Callable[[float], None] = time.sleep) -> None:
    """Give the first step of a run that was started just now a moment to come, and `run` what came with it."""
    if run.last_sequence or not is_live(run) or now - run.created_at > JUST_NOW:
        return
    begun = Run.objects.filter(pk=run.pk, last_sequence__gt=0)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        sleep(LOOK_S)
        if begun.exists():
            run.refresh_from_db()
            return
