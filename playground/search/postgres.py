"""The index on PostgreSQL: lexemes with their positions under a GIN index."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from django.db import connection
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL

from playground.models import Run
from playground.search.base import TABLE, Document, SearchIndex
from playground.search.query import Term

# PostgreSQL has positions up to 16383 and 255 of a lexeme. Beyond, they begin anew: a phrase far down in a long text
# is found, at the price of finding, once in a while, one that isn't there.
POSITIONS = 16_000
POSITIONS_OF_A_WORD = 255


class PostgresIndex(SearchIndex):
    """Words are split and folded before they get here, so PostgreSQL's parser and dictionaries have no part in it."""

    key = "run_id"

    def write(self, run_id: int, document: Document) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {TABLE} (run_id, words) VALUES (%s, %s::tsvector)"
                " ON CONFLICT (run_id) DO UPDATE SET words = excluded.words",
                [run_id, self._vector(document)],
            )

    def found(self, runs: QuerySet[Run], terms: Sequence[Term]) -> QuerySet[Run]:
        query = " & ".join(self._term(term) for term in terms)
        return runs.filter(pk__in=RawSQL(f"SELECT run_id FROM {TABLE} WHERE words @@ %s::tsquery", [query]))

    def _vector(self, document: Document) -> str:
        positions: dict[str, list[str]] = defaultdict(list)
        position = 0
        for part in document:
            for word in part:
                if len(of_word := positions[word]) < POSITIONS_OF_A_WORD:
                    of_word.append(str(position % POSITIONS + 1))
                position += 1
            position += 1
        return " ".join(f"'{word}':{','.join(of_word)}" for word, of_word in positions.items())

    def _term(self, term: Term) -> str:
        # Words are letters and digits only, so nothing can end the quotes.
        *before, last = (f"'{word}'" for word in term.words)
        return "(" + " <-> ".join([*before, f"{last}:*" if term.prefix else last]) + ")"
