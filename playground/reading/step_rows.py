"""The recorded steps of a run as rows, and what of a run's own times its step list begins with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from llmcore.runs.outcome import RunStatus
from playground.models import Run, RunStep

LIVE = frozenset({RunStatus.QUEUED.value, RunStatus.RUNNING.value, RunStatus.AWAITING_APPROVAL.value})


@dataclass(frozen=True, slots=True)
class StepRow:
    """The columns of a recorded step."""

    sequence: int
    round: int
    kind: str
    started_ms: float
    duration_ms: float
    data: Mapping[str, Any]

    @property
    def end_ms(self) -> float:
        return self.started_ms + self.duration_ms


def load_rows(steps: QuerySet[RunStep]) -> list[StepRow]:
    """Recorded steps in order, in one query; their heavy contents stand elsewhere."""
    columns = ("sequence", "round", "kind", "started_ms", "duration_ms", "data")
    return [StepRow(*row) for row in steps.order_by("sequence").values_list(*columns)]


def lead_ms(run: Run) -> float:
    """How long the run waited before its steps began to count."""
    return max((run.started_at - run.created_at) / timedelta(milliseconds=1), 0.0) if run.started_at else 0.0


def is_live(run: Run) -> bool:
    return run.status in LIVE


def age_ms(run: Run, now: datetime) -> float:
    return max((now - run.created_at) / timedelta(milliseconds=1), 0.0)
