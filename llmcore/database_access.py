"""The database as a store that may be away, for those who have to say so in their own words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connection

Result = TypeVar("Result")


def reached(access: Callable[[], Result], *, away: type[Exception]) -> Result:
    """What `access` gives; where the database can't be reached, `away` with what it said."""
    try:
        return access()
    except (OperationalError, InterfaceError) as error:
        # The next access opens another one.
        connection.close()
        raise away(str(error)) from error
