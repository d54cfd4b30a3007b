"""What is wrong with the site's settings, told before anything is started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured

from playground.privacy import site_level
from playground.retention import Retention


def retention_and_privacy(**options: Any) -> list[CheckMessage]:
    looked_at: tuple[tuple[str, Callable[[], object]], ...] = (
        ("playground.E001", Retention.of_site),
        ("playground.E002", site_level),
    )
    return [message for id, read in looked_at if (message := problem_of(read, id))]


def problem_of(read: Callable[[], object], id: str) -> CheckMessage | None:
    try:
        read()
    except ImproperlyConfigured as error:
        return Error(str(error), id=id)
    return None
