"""Deletes a run for good, with everything that belongs to it; what it used stays in the usage records."""

from __future__ import annotations

import logging

from django.contrib.auth.models import User
from django.db import transaction

from playground.models import Run
from playground.search import compact_index
from playground.services.purge import remove_run

logger = logging.getLogger(__name__)


@transaction.atomic
def delete_run(*, run: Run, by: User) -> bool:
    """Whether it was deleted: a run that is going on, or waits, has to be cancelled first."""
    ended = Run.objects.select_for_update().filter(pk=run.pk, ended_at__isnull=False).first()
    if ended is None:
        return False
    remove_run(ended)
    compact_index()
    logger.info("run %s was deleted by %s", run.pk, by)
    return True
