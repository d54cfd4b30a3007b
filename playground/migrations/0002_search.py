"""The index of what runs say: a virtual table on SQLite, a column of lexemes on PostgreSQL. No model stands for it."""

from django.db import NotSupportedError, migrations

CREATE = {
    "sqlite": ["CREATE VIRTUAL TABLE playground_search USING fts5(words, tokenize = 'unicode61 remove_diacritics 0')"],
    "postgresql": [
        "CREATE TABLE playground_search (run_id bigint PRIMARY KEY, words tsvector NOT NULL)",
        "CREATE INDEX playground_search_words ON playground_search USING gin (words)",
    ],
}


def create(apps, schema_editor):
    vendor = schema_editor.connection.vendor
    if vendor not in CREATE:
        raise NotSupportedError(f"The playground runs on PostgreSQL and SQLite, not on {vendor}: change DATABASES.")
    for statement in CREATE[vendor]:
        schema_editor.execute(statement)


def drop(apps, schema_editor):
    schema_editor.execute("DROP TABLE playground_search")


class Migration(migrations.Migration):
    dependencies = [("playground", "0001_initial")]

    operations = [migrations.RunPython(create, drop, elidable=False)]
