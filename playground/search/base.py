"""What an index of runs can do, whatever database keeps it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from django.db import connection
from django.db.models import QuerySet

from playground.models import Run
from playground.search.query import Term

# The words of a run: parts that no phrase reaches across.
Document = Sequence[Sequence[str]]
TABLE = "playground_search"


class SearchIndex(ABC):
    """Finds runs by the words in them. It takes part in the transaction of whoever writes."""

    key: str

    @abstractmethod
    def write(self, run_id: int, document: Document) -> None:
        """Put `document` in the place of what the index had of the run."""

    @abstractmethod
    def found(self, runs: QuerySet[Run], terms: Sequence[Term]) -> QuerySet[Run]:
        """Those of `runs` in which all of `terms` (at least one) are found."""

    def forget(self, run_ids: Collection[int]) -> None:
        with connection.cursor() as cursor:
            cursor.executemany(f"DELETE FROM {TABLE} WHERE {self.key} = %s", [(run_id,) for run_id in run_ids])

    def compact(self) -> None:
        """Drop the words of what was overwritten or forgotten, where that doesn't happen by itself."""
        # It does, unless a database says otherwise.
        return None

    def prune(self) -> None:
        """Forget the runs that don't exist."""
        with connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {TABLE} WHERE {self.key} NOT IN (SELECT id FROM {Run._meta.db_table})")
