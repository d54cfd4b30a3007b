"""Cache: what of a request the provider could have read from its cache, what it says that it read, and why."""

from __future__ import annotations

from llmcore.trace import StepKind
from playground.reading.cache_map import read_cache_map
from playground.reading.panels.base import Panel, Query, Tab
from playground.reading.sent_requests import request_before, request_forked_from, rounds_of
from playground.reading.step_record import StepRecord


def tab(record: StepRecord) -> Tab:
    return Tab(slug="cache", title="Cache", read=read)


def read(record: StepRecord, query: Query) -> Panel:
    before = request_before(record) or request_forked_from(record)
    context = {
        "map": read_cache_map(before, record),
        "before": before,
        "of_parent": before is not None and before.run.pk != record.run.pk,
        "other_round": _other_round(record),
        "parent": record.run.parent_id,
        "assembled": record.kind == StepKind.ASSEMBLED,
    }
    return Panel(template="cache", context=context)


def _other_round(record: StepRecord) -> int:
    """A round to begin with, for whoever looks for another one than the one before: the first of the run."""
    rounds = rounds_of(record.run)
    first = rounds.first if rounds else 1
    return first if record.line.round != first else first + 1
