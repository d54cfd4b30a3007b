"""Starts a run over each wire format in the started product: `python -m tests.e2e.runs_of_each_format USERNAME`.

Prints the runs' ids by adapter as JSON. With ids after the name it deletes those runs instead, and what they ran with.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

from django.contrib.auth.models import User  # noqa: E402

from llmcore.models import Configuration, LanguageModel, Provider  # noqa: E402
from llmcore.providers.registry import adapters  # noqa: E402
from playground.models import Run  # noqa: E402
from playground.services.start_run import RunRequest, start_run  # noqa: E402

# Two rounds with a tool, then the answer without one.
CONFIGURATION = "endless-lookup"
ROUNDS = 2
PREFIX = "each-format-"


def copied(row: Any, **changes: Any) -> Any:
    row.pk = None
    row._state.adding = True
    for name, value in changes.items():
        setattr(row, name, value)
    row.save()
    return row


def start(user: User, adapter: str) -> int:
    configuration = Configuration.objects.select_related("model__provider").get(slug=CONFIGURATION)
    slug = PREFIX + adapter.replace("_", "-")
    provider = copied(configuration.model.provider, slug=slug, name=slug, adapter=adapter)
    model = copied(configuration.model, provider=provider)
    copied(configuration, slug=slug, name=slug, model=model)
    request = RunRequest(configuration=slug, prompt="Which orders?", title=f"Over {adapter}", max_rounds=ROUNDS)
    return start_run(request=request, by=user).pk


def main(username: str, *ids: str) -> dict[str, int]:
    if ids:
        Run.objects.filter(pk__in=ids).delete()
        for model in (Configuration, LanguageModel, Provider):
            name = "provider__slug" if model is LanguageModel else "slug"
            model.objects.filter(**{f"{name}__startswith": PREFIX}).delete()
        return {}
    user = User.objects.get(username=username)
    return {adapter: start(user, adapter) for adapter in sorted(adapters())}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
