"""Finds runs by the words in them. Whoever writes, changes or deletes a run keeps the index up to date, explicitly."""

from __future__ import annotations

from collections.abc import Collection

from django.db import NotSupportedError, connection
from django.db.models import QuerySet

from playground.models import Run
from playground.search.base import SearchIndex
from playground.search.document import document_of, document_of_new, word_of_source
from playground.search.postgres import PostgresIndex
from playground.search.query import Term, terms_of
from playground.search.sqlite import SQLiteIndex

INDEXES: dict[str, type[SearchIndex]] = {"postgresql": PostgresIndex, "sqlite": SQLiteIndex}


def search_index() -> SearchIndex:
    if connection.vendor not in INDEXES:
        raise NotSupportedError(f"runs can be searched on PostgreSQL and SQLite, not on {connection.vendor}")
    return INDEXES[connection.vendor]()


def index_run(run_id: int) -> None:
    """Bring the index up to date with the run's rows, within the transaction that wrote them."""
    document = document_of(run_id)
    if document is None:
        search_index().forget([run_id])
    else:
        search_index().write(run_id, document)


def index_new_run(run: Run) -> None:
    """The same for a run that was written just now: there is no need to read it."""
    search_index().write(run.pk, document_of_new(run))


def forget_runs(run_ids: Collection[int]) -> None:
    """To be called by whoever deletes runs."""
    search_index().forget(run_ids)


def compact_index() -> None:
    """To be called once something was deleted for good: an index may keep words that nothing has any more."""
    search_index().compact()


def found_runs(runs: QuerySet[Run], text: str) -> QuerySet[Run]:
    """Those of `runs` that are found by what a person typed; none where there is no word in it."""
    terms = terms_of(text)
    return search_index().found(runs, terms) if terms else runs.none()


def runs_made_with(runs: QuerySet[Run], kind: str, object_id: int, number: int | None = None) -> QuerySet[Run]:
    """Those of `runs` that a skill, snippet or configuration went into, or that version of it. A run is found once it
    has ended."""
    return search_index().found(runs, [Term((word_of_source(kind, object_id, number),))])
