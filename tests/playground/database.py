"""Looks for words in the whole database."""

from __future__ import annotations

from django.db import connection

from playground.search import search_index


def empty_search_index() -> None:
    """It is no model's table, so nobody else empties it between tests that commit."""
    search_index().prune()
    search_index().compact()


def found_in_database(*words: str) -> dict[str, set[str]]:
    """The tables that hold one of `words`, whatever their columns."""
    found: dict[str, set[str]] = {}
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            for row in cursor.fetchall():
                text = " ".join(as_text(value) for value in row).lower()
                for word in words:
                    if word in text:
                        found.setdefault(word, set()).add(table)
    return found


def as_text(value: object) -> str:
    return bytes(value).decode("utf-8", "replace") if isinstance(value, bytes | memoryview) else str(value)
