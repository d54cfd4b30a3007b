"""Lets an interrupted run go on, as the same run, from the steps that were recorded."""

from __future__ import annotations

import logging

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from llmcore.runs.outcome import RunStatus
from playground.claims import queue_columns
from playground.models import Run
from playground.queue import hand_over_on_commit
from playground.search import index_run
from playground.wakeups import wake_on_commit

logger = logging.getLogger(__name__)


def continue_run(*, run: Run, by: User | None) -> bool:
    """Whether the run goes on: only an interrupted one can, as long as it has its contents. Asking twice changes
    nothing."""
    with transaction.atomic():
        going_on = requeue_interrupted(run)
        if going_on:
            hand_over_on_commit(run.pk)
    if going_on:
        logger.info("run %s goes on, as %s asked", run.pk, by)
    return going_on


@transaction.atomic
def requeue_interrupted(run: Run) -> bool:
    """Put an interrupted run back into the queue; handing it over is the caller's part."""
    whole = Run.objects.filter(contents_deleted_at=None, redacted_at=None)
    interrupted = whole.select_for_update().filter(pk=run.pk, status=RunStatus.INTERRUPTED)
    ended_at = interrupted.values_list("ended_at", flat=True).first()
    if ended_at is None:
        return False
    interrupted.update(**queue_columns(since=ended_at, now=timezone.now()))
    index_run(run.pk)
    wake_on_commit(run.pk)
    return True
