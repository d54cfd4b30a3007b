"""Tools that describe the site's models."""

from __future__ import annotations

from typing import Annotated, Any

from django.db.models import ForeignObjectRel

from llmcore.diagnostics.access import GROUP, PERMISSION, label_of, model_named, viewable_models
from llmcore.messages import JSON
from llmcore.tools.base import ToolContext
from llmcore.tools.registry import tool

MAX_CHOICES = 30
MAX_MODELS = 300


@tool(group=GROUP, permission=PERMISSION)
def list_models(
    context: ToolContext, app: Annotated[str | None, "Only this app, such as auth.", {"maxLength": 100}] = None
) -> JSON:
    """The site's models that you may see, with their tables. Use describe_model for the fields of one."""
    models = [model for model in viewable_models(context) if app in (None, model._meta.app_label)]
    rows = [
        {"model": label_of(model), "name": str(model._meta.verbose_name), "table": model._meta.db_table}
        for model in sorted(models, key=label_of)
    ]
    return {"count": len(rows), "models": rows[:MAX_MODELS]}


@tool(group=GROUP, permission=PERMISSION)
def describe_model(
    context: ToolContext, model: Annotated[str, "Such as auth.User.", {"minLength": 3, "maxLength": 200}]
) -> JSON:
    """The fields of a model: types, whether they may be null, choices and relations. Shows no rows."""
    found = model_named(context, model)
    options = found._meta
    return {
        "model": label_of(found),
        "table": options.db_table,
        "ordering": [str(name) for name in options.ordering or ()],
        "fields": [field_facts(field) for field in options.get_fields(include_hidden=False)],
        "constraints": [constraint.name for constraint in options.constraints],
        "indexes": [index.name for index in options.indexes],
    }


def field_facts(field: Any) -> dict[str, JSON]:
    """What there is to say of a field or of a relation from elsewhere; what isn't the case is left out."""
    facts: dict[str, JSON] = {"name": field.name}
    if isinstance(field, ForeignObjectRel):
        return {**facts, "type": "reverse relation", "from": label_of(field.related_model)}
    facts["type"] = field.get_internal_type() if hasattr(field, "get_internal_type") else type(field).__name__
    for name in ("null", "unique", "primary_key", "db_index"):
        if getattr(field, name, False):
            facts[name] = True
    if getattr(field, "max_length", None):
        facts["max_length"] = field.max_length
    if field.is_relation and field.related_model is not None:
        facts["to"] = label_of(field.related_model)
    if choices := getattr(field, "flatchoices", None):
        facts["choices"] = [str(value) for value, _ in choices[:MAX_CHOICES]]
    return facts
