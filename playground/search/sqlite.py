"""The index on SQLite: an FTS5 table whose row ids are those of the runs."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL

from playground.models import Run
from playground.search.base import TABLE, Document, SearchIndex
from playground.search.query import Term

# A word that nobody can type: of all characters that are no letter or digit, the tokenizer keeps those for private use.
GAP = " \ue000 "


class SQLiteIndex(SearchIndex):
    """Words are split and folded before they get here; FTS5 has only to split them at spaces."""

    key = "rowid"

    def write(self, run_id: int, document: Document) -> None:
        words = GAP.join(" ".join(part) for part in document)
        with connection.cursor() as cursor:
            cursor.execute(f"INSERT OR REPLACE INTO {TABLE} (rowid, words) VALUES (%s, %s)", [run_id, words])

    def found(self, runs: QuerySet[Run], terms: Sequence[Term]) -> QuerySet[Run]:
        expression = " AND ".join(self._term(term) for term in terms)
        return runs.filter(pk__in=RawSQL(f"SELECT rowid FROM {TABLE} WHERE {TABLE} MATCH %s", [expression]))

    def compact(self) -> None:
        # What is deleted from FTS5 is only marked so, until the parts of the index are merged.
        with connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO {TABLE} ({TABLE}) VALUES ('optimize')")

    def _term(self, term: Term) -> str:
        # Words are letters and digits only, so nothing can end the quotes.
        phrase = '"' + " ".join(term.words) + '"'
        return f"{phrase} *" if term.prefix else phrase
