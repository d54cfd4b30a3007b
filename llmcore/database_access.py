"""Ways to the database beside the usual one: to a store that may be away, for questions that never change, and for
views that make their own transactions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, connection, connections, transaction
from django.db.models import QuerySet

Result = TypeVar("Result")
View = TypeVar("View", bound=Callable[..., Any])


def reached(access: Callable[[], Result], *, away: type[Exception]) -> Result:
    """What `access` gives; where the database can't be reached, `away` with what it said."""
    try:
        return access()
    except (OperationalError, InterfaceError) as error:
        # The next access opens another one.
        connection.close()
        raise away(str(error)) from error


def outside_transactions(view: View) -> View:
    """`view`, around which a site with ATOMIC_REQUESTS puts no transaction, in none of its databases.

    For asynchronous views, which Django refuses in such a site, and for those that wait for others, who could not write
    meanwhile. What they write is one transaction of a service.
    """
    for alias in connections:
        view = transaction.non_atomic_requests(using=alias)(view)
    return view


class FixedQuery:
    """A query that is the same each time, compiled once.

    For the small tables that every run looks into: there the compiling takes ten times as long as the answer. `build`
    gives tuples (`values_list`) of columns that need no conversion: text, numbers, bytes.
    """

    def __init__(self, build: Callable[[], QuerySet[Any, tuple[Any, ...]]]) -> None:
        self._build = build

    @cached_property
    def _compiled(self) -> tuple[str, tuple[Any, ...]]:
        sql, parameters = self._build().query.get_compiler(connection=connection).as_sql()
        return sql, tuple(parameters)

    def rows(self) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(*self._compiled)
            found: list[tuple[Any, ...]] = cursor.fetchall()
        return found
