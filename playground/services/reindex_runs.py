"""Builds the index of runs anew from their rows, run by run, while everything else goes on."""

from __future__ import annotations

from django.db import transaction

from playground.models import Run, RunTool
from playground.rows import load_steps, tool_rows
from playground.search import index_run, search_index
from playground.search.steps import SearchableSteps


def reindex_runs() -> int:
    """How many runs there are in the index now."""
    count = 0
    for run_id in Run.objects.order_by("pk").values_list("pk", flat=True).iterator():
        count += reindex_run(run_id)
    search_index().prune()
    return count


@transaction.atomic
def reindex_run(run_id: int) -> bool:
    """False where the run was deleted meanwhile."""
    if not Run.objects.select_for_update().filter(pk=run_id).exists():
        return False
    tools = SearchableSteps(load_steps(run_id)).tools
    RunTool.objects.filter(run_id=run_id).exclude(name__in=tools).delete()
    RunTool.objects.bulk_create(tool_rows(run_id, tools), ignore_conflicts=True)
    index_run(run_id)
    return True
