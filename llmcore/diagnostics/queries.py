"""The tool that reads rows: only of models and fields that the site lists, and only what the user may see."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from django.core.exceptions import FieldDoesNotExist, FieldError, ValidationError
from django.db import DatabaseError, connections, router, transaction
from django.db.models import Model, QuerySet

from llmcore.conf import settings
from llmcore.diagnostics.access import GROUP, PERMISSION, label_of, may_view, model_named
from llmcore.errors import ToolError
from llmcore.messages import JSON
from llmcore.redaction import storable
from llmcore.tools.base import ToolContext
from llmcore.tools.registry import tool

MAX_ROWS = 100
MAX_COUNTED = 10_000
MAX_TEXT_CHARS = 500
MAX_SECONDS = 5.0
# No regular expressions: SQLite would run them in this process.
LOOKUPS = ("exact", "iexact", "contains", "icontains", "startswith", "gt", "gte", "lt", "lte", "in", "isnull", "date")

Filter = dict[str, Any]


def nothing_to_query(context: ToolContext) -> str | None:
    return None if settings.LLM_QUERY_FIELDS else "the site lists no fields to query (setting LLM_QUERY_FIELDS)"


@tool(group=GROUP, permission=PERMISSION, off_because=nothing_to_query)
def query_rows(
    context: ToolContext,
    model: Annotated[str, "Such as shop.Order.", {"minLength": 3, "maxLength": 200}],
    fields: Annotated[list[str] | None, "The fields to show; all of them otherwise.", {"maxItems": 50}] = None,
    where: Annotated[
        dict[str, Any] | None,
        'Conditions that all hold, such as {"status": "paid", "total__gte": 50}. Lookups: ' + ", ".join(LOOKUPS),
        {"maxProperties": 10},
    ] = None,
    order_by: Annotated[str | None, "A field, with - before it for the largest first.", {"maxLength": 200}] = None,
    limit: Annotated[int, {"minimum": 1, "maximum": MAX_ROWS}] = 20,
    result: Annotated[Literal["rows", "count"], "Rows, or only how many there are."] = "rows",
) -> JSON:
    """Read rows of a model, or count them. Only fields that the site allows can be shown, filtered or sorted by."""
    found = model_named(context, model)
    allowed = allowed_fields(context, found)
    shown = list(fields or allowed)
    refuse_others(shown, allowed)
    rows: QuerySet[Any] = found._default_manager.all()
    try:
        rows = rows.filter(**conditions(where or {}, allowed))
        if order_by is not None:
            refuse_others([order_by.removeprefix("-")], allowed)
            rows = rows.order_by(order_by, "pk")
        with bounded(found):
            if result == "count":
                counted = rows.order_by()[: MAX_COUNTED + 1].count()
                return {"count": min(counted, MAX_COUNTED), "more": counted > MAX_COUNTED}
            read = list(rows.values(*shown)[: limit + 1])
    except (FieldError, ValidationError, ValueError, TypeError, OverflowError) as error:
        # A value that doesn't fit its field; the texts of these name the field and the value.
        raise ToolError(f"These conditions can't be used: {str(error)[:300]}") from error
    except DatabaseError as error:
        raise ToolError(
            f"The database didn't answer within {MAX_SECONDS:.0f} seconds, or refused. Ask for less, by other fields."
        ) from error
    return {"rows": [{name: short(row[name]) for name in shown} for row in read[:limit]], "more": len(read) > limit}


def allowed_fields(context: ToolContext, model: type[Model]) -> list[str]:
    """The fields of a model that the site lists; those of another model for users who may see that one."""
    by_label = {label.lower(): names for label, names in settings.LLM_QUERY_FIELDS.items()}
    listed = by_label.get(label_of(model).lower(), ())
    found = [name for name in listed if may_follow(context, model, name)]
    if not found:
        raise ToolError(f"The site lists no fields of {label_of(model)} that may be shown. Others: {others(context)}.")
    return found


def others(context: ToolContext) -> str:
    return ", ".join(sorted(settings.LLM_QUERY_FIELDS)) or "none"


def may_follow(context: ToolContext, model: type[Model], name: str) -> bool:
    """Whether the user may see every model on the way to a field such as `customer__city`."""
    *way, _last = name.split("__")
    for step in way:
        try:
            related = model._meta.get_field(step).related_model
        except FieldDoesNotExist:
            return False
        if not isinstance(related, type) or not may_view(context, related):
            return False
        model = related
    return True


def refuse_others(names: Sequence[str], allowed: Sequence[str]) -> None:
    if wrong := [name for name in names if name not in allowed]:
        raise ToolError(f"Not allowed: {', '.join(wrong)[:200]}. Fields are: {', '.join(allowed)}.")


def conditions(where: Filter, allowed: Sequence[str]) -> Filter:
    """The conditions as Django takes them. A field that isn't shown can't be asked about either: yes and no, asked
    often enough, tell everything."""
    for key, value in where.items():
        name, _, lookup = key.rpartition("__")
        if key not in allowed and not (name in allowed and lookup in LOOKUPS):
            refuse_others([key], allowed)
        if isinstance(value, dict) or (isinstance(value, list) and (lookup != "in" or len(value) > 100)):
            raise ToolError(f"The condition {key!r} needs a plain value, or with __in a list of at most 100.")
    cleaned: Filter = storable(where)
    return cleaned


@contextmanager
def bounded(model: type[Model], *, seconds: float = MAX_SECONDS) -> Iterator[None]:
    """A transaction that reads and is broken off by the database when it takes too long."""
    alias = router.db_for_read(model)
    connection = connections[alias]
    with transaction.atomic(using=alias):
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION READ ONLY")
                cursor.execute(f"SET LOCAL statement_timeout = {int(seconds * 1000)}")
            yield
        elif connection.vendor == "sqlite":
            connection.ensure_connection()
            deadline = time.monotonic() + seconds
            connection.connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
            try:
                yield
            finally:
                connection.connection.set_progress_handler(None, 0)
        else:
            yield


def short(value: Any) -> Any:
    """A value as it is shown; of a long text the beginning, of bytes the size."""
    if isinstance(value, bytes | memoryview):
        return f"({len(value):,} bytes)"
    if isinstance(value, str) and len(value) > MAX_TEXT_CHARS:
        return f"{value[:MAX_TEXT_CHARS]}… [{len(value) - MAX_TEXT_CHARS:,} characters more]"
    return value
