"""What a Celery worker does beside its tasks: a periodic job, signs of life, and letting go of its runs when it is told
to stop."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

from celery.signals import heartbeat_sent, worker_ready, worker_shutting_down
from django.db import InterfaceError, OperationalError, close_old_connections
from django.utils import timezone

from llmcore.conf import settings
from playground.services.purge import purge
from playground.services.sweep import sweep

logger = logging.getLogger(__name__)

# Set once, when this process is told to end: every run that it drives looks at it several times a second.
stopping = threading.Event()
told_to_stop = False
# A worker whose last sweep is longer ago isn't well: it has lost the database.
WELL_S = 60.0
last_swept = 0.0
# Days are counted in what is purged: looking once an hour is often enough.
PURGE_S = 3600.0


def worker_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def start_sweeping(**_: Any) -> None:
    threading.Thread(target=keep_sweeping, name="sweep", daemon=True).start()


def stop_driving(**_: Any) -> None:
    """Runs in a signal handler, where a second signal may come in between: both setting the event would lock up."""
    global told_to_stop
    if not told_to_stop:
        told_to_stop = True
        stopping.set()


def keep_sweeping() -> None:
    """Sweep until the worker stops: often enough that a lost run is noticed soon after its lease. Each hour, purge."""
    global last_swept
    next_purge = time.monotonic()
    interval_s = min(max(settings.LLM_LEASE_S / 4, 0.25), 5.0)
    while not stopping.wait(interval_s):
        close_old_connections()
        try:
            sweep(now=timezone.now())
            last_swept = time.monotonic()
        except (OperationalError, InterfaceError) as error:
            logger.warning("the database is away, sweeping is tried again in %g s: %s", interval_s, error)
        except Exception:
            logger.exception("sweeping failed, it is tried again in %g s", interval_s)
        if time.monotonic() >= next_purge:
            next_purge = time.monotonic() + (0.0 if purge_some() else PURGE_S)


def purge_some() -> bool:
    """Whether there is more to purge: then after the next sweep, which must not wait for all of it."""
    try:
        return purge(now=timezone.now()).more
    except Exception:
        logger.exception("purging failed, it is tried again in an hour")
        return False


def show_life(**_: Any) -> None:
    """Touch the file that a health check looks at. Comes with each heartbeat, so only while the broker answers."""
    if settings.LLM_WORKER_ALIVE_FILE and time.monotonic() - last_swept < WELL_S:
        Path(settings.LLM_WORKER_ALIVE_FILE).touch()


worker_ready.connect(start_sweeping)
worker_shutting_down.connect(stop_driving)
heartbeat_sent.connect(show_life)
