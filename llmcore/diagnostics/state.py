"""Tools about how the site is set up: its addresses, migrations, settings and caches."""

from __future__ import annotations

import time
from typing import Annotated, Any

from django.conf import settings as site
from django.core.cache import caches
from django.db import connections
from django.db.migrations.executor import MigrationExecutor
from django.urls import Resolver404, resolve
from django.views.debug import SafeExceptionReporterFilter

from llmcore import store
from llmcore.conf import settings as ours
from llmcore.diagnostics.access import GROUP, PERMISSION
from llmcore.errors import ToolError
from llmcore.messages import JSON
from llmcore.redaction import Redactor
from llmcore.redaction.patterns import MASK, is_secret_name
from llmcore.tools.registry import tool

MAX_VALUE_CHARS = 2_000
# A key that nobody stores: asking for it tells whether the cache answers.
PROBED_KEY = "llmcore:diagnostics:is-it-there"


@tool(group=GROUP, permission=PERMISSION)
def resolve_url(
    path: Annotated[str, "The path of an address, such as /admin/login/.", {"minLength": 1, "maxLength": 1_000}],
) -> JSON:
    """Which view answers a path of this site, and by which pattern. The view isn't called."""
    asked = path.partition("?")[0]
    try:
        match = resolve(asked if asked.startswith("/") else f"/{asked}")
    except Resolver404:
        raise ToolError(f"No view of this site answers {asked[:200]!r}.") from None
    return {
        "view": match._func_path,
        "name": match.view_name,
        "pattern": match.route,
        "arguments": {**{str(place): str(value) for place, value in enumerate(match.args)}, **_texts(match.kwargs)},
    }


@tool(group=GROUP, permission=PERMISSION)
def migrations_state() -> JSON:
    """Which migrations each app has, and which of them aren't applied to the databases yet."""
    found = {}
    for alias in connections:
        executor = MigrationExecutor(connections[alias])
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
        newest = dict(sorted(executor.loader.applied_migrations))
        found[alias] = {
            "database": connections[alias].vendor,
            "newest_applied": newest,
            "not_applied": [f"{migration.app_label}.{migration.name}" for migration, _ in plan],
        }
    return found


@tool(group=GROUP, permission=PERMISSION)
def show_settings(
    name: Annotated[str, "A part of the setting's name, such as CACHE.", {"minLength": 2, "maxLength": 100}],
) -> JSON:
    """Django settings of this site whose name contains a text. Secrets are masked."""
    wanted = name.upper()
    names = sorted(key for key in {*dir(site), *vars(type(ours))["__annotations__"]} if key.isupper() and wanted in key)
    if not names:
        raise ToolError(f"No setting has {name!r} in its name.")
    redactor = store.site_redactor()
    return {key: shown_setting(key, redactor) for key in names[:50]}


def shown_setting(name: str, redactor: Redactor) -> JSON:
    """A setting as text: Django's own masking first, then everything that this site knows as a secret or that looks
    like one."""
    try:
        value = getattr(ours, name)
    except Exception as error:
        return f"(can't be read: {type(error).__name__})"
    if is_secret_name(name):
        return MASK
    clean = SafeExceptionReporterFilter().cleanse_setting(name, value)
    text = redactor.patterns(str(redactor.deep(_plain(clean), patterns=True)))
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}… [cut]"


@tool(group=GROUP, permission=PERMISSION, timeout_s=15)
def cache_state() -> JSON:
    """The site's caches: which kind each is, and whether it answers and how fast. Stores nothing."""
    return {alias: _cache_facts(alias) for alias in site.CACHES}


def _cache_facts(alias: str) -> dict[str, JSON]:
    facts: dict[str, JSON] = {"backend": str(site.CACHES[alias].get("BACKEND", ""))}
    started = time.monotonic()
    try:
        caches[alias].get(PROBED_KEY)
    except Exception as error:
        return {**facts, "answers": False, "error": type(error).__name__}
    return {**facts, "answers": True, "ms": round((time.monotonic() - started) * 1000, 1)}


def _plain(value: Any) -> JSON:
    """JSON for a setting of any kind."""
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(item) for item in value]
        case None | bool() | int() | float():
            return value
        case _:
            return str(value)


def _texts(values: dict[str, Any]) -> dict[str, JSON]:
    return {name: str(value) for name, value in values.items()}
