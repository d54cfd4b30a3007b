"""Lets programs of this project run beside a test, on the test's database and queue."""

from __future__ import annotations

import os
from pathlib import Path

from django.conf import settings
from django.db import connection

ROOT = Path(__file__).resolve().parent.parent.parent


def environment_beside(folder: Path, **changes: str) -> dict[str, str]:
    """The environment of such a program: `folder` is its data folder, but for the database and the queue."""
    (folder / "queue").symlink_to(settings.QUEUE_DIR)
    database_url = ""
    if connection.vendor == "sqlite":
        (folder / "db.sqlite3").symlink_to(connection.settings_dict["NAME"])
    else:
        database_url = "postgres://{USER}:{PASSWORD}@{HOST}:{PORT}/{NAME}".format(**connection.settings_dict)
    return {
        **os.environ,
        "DATA_DIR": str(folder),
        "LLM_ENCRYPTION_KEYS": ",".join(settings.LLM_ENCRYPTION_KEYS),
        "SECRET_KEY": settings.SECRET_KEY,
        "DATABASE_URL": database_url,
        "REDIS_URL": "",
        **changes,
    }
