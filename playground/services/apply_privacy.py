"""Leaves of a run that has ended what its privacy level allows."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from django.db import DatabaseError, InterfaceError, transaction
from django.db.models import QuerySet

from llmcore import store
from llmcore.redaction import Redactor
from playground.erasure import Masking, delete_contents, find_secrets, mask_contents
from playground.models import GO_ON, Run
from playground.privacy import PrivacyLevel

logger = logging.getLogger(__name__)

# A run that was broken off keeps what it needs to go on with for so long, whatever its level.
CONTINUABLE = timedelta(days=1)


def runs_to_level(*, now: datetime) -> QuerySet[Run]:
    """The runs that have ended and still hold more than their level allows."""
    below = Run.objects.exclude(privacy_level=PrivacyLevel.FULL)
    held = below.filter(ended_at__isnull=False, contents_deleted_at=None, redacted_at=None)
    return held.exclude(reason__in=GO_ON, ended_at__gt=now - CONTINUABLE)


def apply_privacy(*, run_id: int, now: datetime) -> bool:
    """Whether there was something to delete or to mask; another worker may have been first."""
    run = runs_to_level(now=now).filter(pk=run_id).first()
    if run is None:
        return False
    masking = find_masking(run, store.site_redactor())
    return _apply(runs_to_level(now=now).filter(pk=run_id, ended_at=run.ended_at), masking, now)


def apply_privacy_at_end(*, run_id: int, now: datetime, masking: Masking | None = None) -> None:
    """The same within the transaction that ends the run. What goes wrong must not keep it from ending: the periodic
    job tries again."""
    try:
        _apply(runs_to_level(now=now).filter(pk=run_id), masking, now)
    except (DatabaseError, InterfaceError):
        raise
    except Exception:
        logger.exception("run %s holds more than its privacy level allows; it is tried again", run_id)


def find_masking(run: Run, redactor: Redactor, *, between: Callable[[], object] = lambda: None) -> Masking | None:
    """What is to be masked in `run` by its level; `None` where that is not the way of its level."""
    return find_secrets(run, redactor, between=between) if run.privacy_level == PrivacyLevel.REDACTED else None


@transaction.atomic
def _apply(row: QuerySet[Run], masking: Masking | None, now: datetime) -> bool:
    run = row.select_for_update().first()
    if run is None:
        return False
    if run.privacy_level == PrivacyLevel.METADATA:
        delete_contents(run, kept_days=None, now=now)
    else:
        redactor = store.site_redactor()
        mask_contents(run, masking or find_secrets(run, redactor), redactor=redactor, now=now)
    return True
