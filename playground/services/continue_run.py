"""Lets a run that was interrupted, or that a budget had no room for, go on as the same run, from its recorded steps."""

from __future__ import annotations

import logging

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from playground.claims import queue_columns
from playground.models import GO_ON, Run
from playground.queue import hand_over_on_commit
from playground.search import index_run
from playground.wakeups import wake_on_commit

logger = logging.getLogger(__name__)


def continue_run(*, run: Run, by: User | None) -> bool:
    """Whether the run goes on: only one can that was interrupted, or that a budget had too little left for, as long as
    it has its contents. Asking twice changes nothing."""
    with transaction.atomic():
        going_on = requeue_interrupted(run)
        if going_on:
            hand_over_on_commit(run.pk)
    if going_on:
        logger.info("run %s goes on, as %s asked", run.pk, by)
    return going_on


@transaction.atomic
def requeue_interrupted(run: Run) -> bool:
    """Put a run that can go on back into the queue; handing it over is the caller's part."""
    whole = Run.objects.filter(contents_deleted_at=None, redacted_at=None)
    broken_off = whole.select_for_update().filter(pk=run.pk, reason__in=GO_ON)
    ended_at = broken_off.values_list("ended_at", flat=True).first()
    if ended_at is None:
        return False
    broken_off.update(**queue_columns(since=ended_at, now=timezone.now()))
    index_run(run.pk)
    wake_on_commit(run.pk)
    return True
