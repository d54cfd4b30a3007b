"""What there is to narrow the list of runs by: only what occurs in runs that the user may see."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User

from llmcore.models import Configuration, PromptVersion
from playground.access import visible_runs
from playground.filters import Made
from playground.models import Run, RunTag, RunTool
from playground.services.served_models import served_models

# More than that nobody looks through; the address takes any.
MOST = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterChoices:
    """Configurations as slugs and names, users as ids and names, the others by name."""

    configurations: tuple[tuple[str, str], ...]
    models: tuple[str, ...]
    tools: tuple[str, ...]
    tags: tuple[str, ...]
    users: tuple[tuple[str, str], ...]


def load_filter_choices(*, user: User) -> FilterChoices:
    """`users` is empty for those who see only their own runs."""
    return FilterChoices(
        configurations=tuple(Configuration.objects.order_by("name").values_list("slug", "name")),
        models=tuple(_models(user)),
        tools=tuple(_names(RunTool, user)),
        tags=tuple(_names(RunTag, user)),
        users=_users(user),
    )


def load_tags(*, user: User) -> tuple[str, ...]:
    """The tags in use, to choose from when another run is tagged."""
    return tuple(_names(RunTag, user))


def _models(user: User) -> list[str]:
    """Those that runs were to use, and those that served them instead."""
    runs = visible_runs(user).order_by()
    asked = runs.order_by("model_name").values_list("model_name", flat=True).distinct()[:MOST]
    names = served_models()
    served = runs.exclude(served_by="").values_list("served_by", flat=True).distinct()[:MOST] if names else ()
    return sorted({*asked, *(names[path] for path in served if path in names)})


def _names(model: type[RunTag] | type[RunTool], user: User) -> list[str]:
    rows = model.objects.filter(run__in=visible_runs(user).order_by())
    return list(rows.order_by("name").values_list("name", flat=True).distinct()[:MOST])


def _users(user: User) -> tuple[tuple[str, str], ...]:
    if not user.has_perm("playground.view_all_runs"):
        return ()
    ids = Run.objects.order_by().exclude(user=None).values("user")
    model = get_user_model()
    rows = model.objects.filter(pk__in=ids).order_by(model.USERNAME_FIELD).values_list("pk", model.USERNAME_FIELD)
    return tuple((str(pk), str(name)) for pk, name in rows[:MOST])


def name_of_source(made: Made) -> str:
    """As it is called now, or was in that version."""
    kept = PromptVersion.objects.filter(kind=made.kind, object_id=made.object_id)
    version = (kept if made.number is None else kept.filter(number=made.number)).first()
    name = version.name if version else f"{made.kind} {made.object_id}"
    return name if made.number is None else f"{name}, version {made.number}"
