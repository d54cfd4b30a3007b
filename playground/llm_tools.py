"""The tool that looks into the queue of runs."""

from __future__ import annotations

from django.db.models import Count, Min
from django.utils import timezone

from llmcore.diagnostics.access import GROUP, PERMISSION
from llmcore.messages import JSON
from llmcore.runs.outcome import RunStatus
from llmcore.tools.registry import tool
from playground.models import Run


@tool(group=GROUP, permission=PERMISSION)
def queue_state() -> JSON:
    """How many runs wait, run and have ended, how long the oldest waits, and which workers are at it."""
    now = timezone.now()
    counts = dict(Run.objects.values_list("status").annotate(count=Count("pk")).order_by())
    oldest = Run.objects.filter(status=RunStatus.QUEUED).aggregate(at=Min("queued_at"))["at"]
    running = Run.objects.filter(status=RunStatus.RUNNING).order_by("pk")
    return {
        "runs": {str(status): count for status, count in sorted(counts.items())},
        "oldest_waits_s": None if oldest is None else round((now - oldest).total_seconds(), 1),
        "running": [
            {"run": run.pk, "worker": run.worker, "heard_of": bool(run.lease_until and run.lease_until > now)}
            for run in running[:50]
        ],
    }
