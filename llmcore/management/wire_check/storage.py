"""What the database makes of a response: stored in a JSON column and read back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.db import DatabaseError, connection, models, transaction

from llmcore.management.wire_check.checks import shown
from llmcore.messages import JSON, Message, ModelResponse
from llmcore.redaction import storable

SPELLED_OUT = "\\u0000"


def stored(value: JSON) -> JSON:
    """`value` as a JSON column gives it back. It is cleaned first, as everything is before it is stored."""
    # Only the database's own conversions are asked of it: it belongs to no model.
    field: Any = models.JSONField()
    quoted = connection.ops.quote_name("wire_check")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"CREATE TEMPORARY TABLE {quoted} (value {field.db_type(connection)})")
        try:
            prepared = field.get_db_prep_save(storable(value), connection)
            cursor.execute(f"INSERT INTO {quoted} (value) VALUES (%s)", [prepared])
            cursor.execute(f"SELECT value FROM {quoted}")
            (row,) = cursor.fetchall()
        finally:
            if not connection.needs_rollback:
                cursor.execute(f"DROP TABLE {quoted}")
    return field.from_db_value(row[0], None, connection)


def storage_differences(wanted: Mapping[str, JSON], response: ModelResponse) -> Iterator[str]:
    """One line for each demand on the stored response that isn't met."""
    try:
        value = stored(response.message.json)
    except (DatabaseError, ValueError) as error:
        if wanted.get("insert_into_jsonb_succeeds"):
            yield f"storage: the database refused it ({type(error).__name__})"
        return
    for name, demand in wanted.items():
        match name:
            case "insert_into_jsonb_succeeds":
                if demand is not True:
                    yield "storage: the database took it"
            case "stored_content_one_of":
                text = Message.from_json(value).text
                if text not in demand:
                    yield f"storage: the content is {shown(text)}, not one of {shown(demand)}"
            case "literal_backslash_u0000_text_survives":
                if has_text(value, SPELLED_OUT) is not demand:
                    yield f"storage: a spelled-out {SPELLED_OUT} did not survive"
            case _:
                yield f"there is no storage check {name!r}"


def has_text(value: JSON, text: str) -> bool:
    if isinstance(value, str):
        return text in value
    if isinstance(value, dict):
        return any(has_text(item, text) for item in value.values())
    return isinstance(value, list) and any(has_text(item, text) for item in value)
