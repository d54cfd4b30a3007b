"""What the two apps need of a site's settings, said by `manage.py check` and before commands and workers start."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.checks import CheckMessage, Error
from django.db import DEFAULT_DB_ALIAS, router

from llmcore.conf import settings


def times_have_zones(**kwargs: Any) -> list[CheckMessage]:
    """Leases and budgets are reckoned with times that have no hour twice."""
    if settings.USE_TZ:
        return []
    return [
        Error(
            "The LLM playground needs times with time zones, and USE_TZ is False.",
            hint="Set USE_TZ to True, which is Django's default.",
            id="playground.E001",
        )
    ]


def rows_are_in_one_database(**kwargs: Any) -> list[CheckMessage]:
    """Users included, for rows refer to them; and a replica tells too late what a worker wrote."""
    models = [model for app in ("llmcore", "playground") for model in apps.get_app_config(app).get_models()]
    elsewhere = [
        model._meta.label
        for model in (*models, get_user_model())
        if {router.db_for_read(model), router.db_for_write(model)} != {DEFAULT_DB_ALIAS}
    ]
    if not elsewhere:
        return []
    return [
        Error(
            f"Rows of {elsewhere[0]} are read from or written to another database than “{DEFAULT_DB_ALIAS}”.",
            hint="Let your DATABASE_ROUTERS leave llmcore, playground and the users to it, for reading and writing.",
            id="playground.E002",
        )
    ]
