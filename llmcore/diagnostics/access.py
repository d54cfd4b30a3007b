"""What the acting user of a run may look at."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib.auth import get_permission_codename
from django.db.models import Model

from llmcore.errors import ToolError
from llmcore.redaction import storable
from llmcore.tools.base import ToolContext

GROUP = "diagnostics"
PERMISSION = "llmcore.use_diagnostics"


def may_view(context: ToolContext, model: type[Model]) -> bool:
    """Whether the user may see rows of a model, as the admin decides it."""
    options = model._meta
    return context.user is not None and any(
        context.user.has_perm(f"{options.app_label}.{get_permission_codename(action, options)}")
        for action in ("view", "change")
    )


def viewable_models(context: ToolContext) -> list[type[Model]]:
    return [model for model in apps.get_models() if may_view(context, model)]


def model_named(context: ToolContext, label: str) -> type[Model]:
    """The model “app.Model”. ToolError where there is none, or none that the user may see: both sound the same."""
    try:
        model: type[Model] | None = apps.get_model(str(storable(label)))
    except (LookupError, ValueError):
        model = None
    if model is None or not may_view(context, model):
        raise ToolError(f"There is no model {label[:100]!r} that you may see. list_models names them.")
    return model


def label_of(model: Any) -> str:
    return str(model._meta.label)
