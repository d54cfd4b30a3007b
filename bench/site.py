"""A site of its own in a temporary folder, with SQLite and the rows that a run needs: for what is measured with a
database."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bench.conversation import PARAMETERS

if TYPE_CHECKING:
    from playground.models import Run

MAX_ROUNDS = 1000


def open_site(folder: str, *, model_url: str, lookup: Callable[..., Any]) -> None:
    """Make this process a site whose data is in `folder`, with the tool `lookup` and one configuration each for plain
    and for streamed answers."""
    os.environ.update(DATA_DIR=folder, DJANGO_SETTINGS_MODULE="config.settings")
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    settings.LLM_MAX_ROUNDS = MAX_ROUNDS
    call_command("migrate", verbosity=0)
    register(lookup)
    write_configurations(model_url)


def register(lookup: Callable[..., Any]) -> None:
    from llmcore.tools.base import Tool
    from llmcore.tools.registry import site_tools

    tool = Tool(name="lookup", description="Look up.", parameters=PARAMETERS, run=lookup, group="bench")
    site_tools.register(tool, place="bench")


def write_configurations(model_url: str) -> None:
    from llmcore.models import Configuration, LanguageModel, Provider

    provider = Provider.objects.create(
        slug="bench", name="Bench", adapter="openai_compat", base_url=model_url, allow_private_hosts=True
    )
    model = LanguageModel.objects.create(provider=provider, name="bench")
    for slug, stream in (("plain", False), ("streamed", True)):
        Configuration.objects.create(
            slug=slug, name=slug, model=model, tool_groups=["bench"], max_rounds=MAX_ROUNDS, stream=stream
        )


def new_run(*, prompt: str, rounds: int, stream: bool = False) -> Run:
    """A run that waits for its driver."""
    from django.contrib.auth.models import User

    from playground.services.start_run import RunRequest, write_run

    user, _ = User.objects.get_or_create(username="bench", is_staff=True, is_superuser=True)
    request = RunRequest(configuration="streamed" if stream else "plain", prompt=prompt, max_rounds=rounds)
    return write_run(request=request, by=user)


def drive(run: Run) -> None:
    """Drive `run` to its end, as a worker does. RuntimeError where it doesn't complete."""
    from playground.services.drive_run import drive_run

    drive_run(run_id=run.pk, worker="bench")
    run.refresh_from_db()
    if run.reason != "completed":
        raise RuntimeError(f"not the run that was to be measured: {run.reason} after {run.rounds} rounds, {run.detail}")
