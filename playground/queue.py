"""Hands runs to the workers. A message is a hint only: the truth is the run's row."""

from __future__ import annotations

from datetime import datetime, timedelta

from celery import current_app
from django.db import transaction

from llmcore.conf import settings

TASK = "playground.drive_run"
# A broker that is down must not hold up the page; the periodic job hands the run over later.
RETRY = {"max_retries": 1, "interval_start": 0.1, "interval_max": 0.1}


def hand_over(run_id: int) -> None:
    """Tell the workers of a queued run. Safe to repeat: only one of them can claim it."""
    current_app.send_task(TASK, args=[run_id], retry_policy=RETRY)


def hand_over_on_commit(run_id: int) -> None:
    """Tell the workers once the run is there to be found. A broker that is down loses nothing and breaks nothing."""

    # A function by name: Django names it when it logs its failure.
    def tell() -> None:
        hand_over(run_id)

    transaction.on_commit(tell, robust=True)


def patience(*, queued_at: datetime, now: datetime) -> timedelta:
    """How long to wait for a claim before handing over again: doubles, so that a long queue isn't flooded, but not
    without end, for what is lost while a run waits must not make it wait as long again."""
    lease = timedelta(seconds=settings.LLM_LEASE_S)
    return max(2 * lease, min(now - queued_at, 20 * lease))
