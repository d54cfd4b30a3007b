"""JSON that comes back with its keys in the order in which they were written."""

from __future__ import annotations

import json
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import JSONField
from django.db.models.fields.json import JSONExact, KeyTransform, KeyTransformFactory


class OrderedJSONField(JSONField):
    """A `JSONField` whose column keeps the order of keys and the spelling of numbers: `json` instead of `jsonb` on
    PostgreSQL. Values and keys are compared as in any `JSONField`; PostgreSQL makes rows with such a column neither
    distinct nor ordered."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        return "json" if connection.vendor == "postgresql" else super().db_type(connection)

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        if connection.vendor != "postgresql":
            return super().get_db_prep_value(value, connection, prepared)
        # Text takes the type of what it meets: `json` in a column, `jsonb` in a comparison. What Django passes is
        # `jsonb` from the start.
        return json.dumps(value, cls=self.encoder, ensure_ascii=False, separators=(",", ":"))

    def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:
        # Otherwise the driver decodes it, and a text in it can't be told from JSON any more.
        return (f"({sql})::text" if compiler.connection.vendor == "postgresql" else sql), params

    def get_transform(self, name: str) -> Any:
        transform = super().get_transform(name)
        return _KeyFactory(name) if isinstance(transform, KeyTransformFactory) else transform


class _Key(KeyTransform):
    """A key of an ordered value, compared as `jsonb`: PostgreSQL compares no `json`."""

    def preprocess_lhs(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, Any, list[str]]:
        sql, params, keys = super().preprocess_lhs(compiler, connection)
        return _comparable(sql, connection), params, keys


class _KeyFactory(KeyTransformFactory):
    def __call__(self, *args: Any, **kwargs: Any) -> _Key:
        return _Key(self.key_name, *args, **kwargs)


@OrderedJSONField.register_lookup
class _Exact(JSONExact):
    def process_lhs(self, compiler: Any, connection: BaseDatabaseWrapper, lhs: Any = None) -> tuple[str, Any]:
        sql, params = super().process_lhs(compiler, connection, lhs)
        return _comparable(sql, connection), params


def _comparable(sql: str, connection: BaseDatabaseWrapper) -> str:
    return f"({sql})::jsonb" if connection.vendor == "postgresql" else sql
