"""The Celery tasks of the playground."""

from __future__ import annotations

from celery import shared_task

from playground import worker
from playground.queue import TASK
from playground.services import drive_run as driver


@shared_task(name=TASK, acks_late=True, ignore_result=True)  # type: ignore[untyped-decorator]  # Celery has no types.
def drive_run(run_id: int) -> None:
    """Drive a run. A message that comes again finds the run claimed and does nothing."""
    driver.drive_run(run_id=run_id, worker=worker.worker_name(), stopping=worker.stopping)
