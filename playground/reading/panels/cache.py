"""Cache: what of a request the provider could have read from its cache, what it says that it read, and why."""

from __future__ import annotations

from llmcore.trace import StepKind
from playground.reading.cache_map import read_cache_map
from playground.reading.panels.base import Panel, Query, Tab
from playground.reading.sent_requests import request_before, request_forked_from
from playground.reading.step_record import StepRecord


def tab(record: StepRecord) -> Tab:
    return Tab(slug="cache", title="Cache", read=read)


def read(record: StepRecord, query: Query) -> Panel:
    before = request_before(record) or request_forked_from(record)
    context = {
        "map": read_cache_map(before, record),
        "before": before,
        "of_parent": before is not None and before.run.pk != record.run.pk,
        # A round to begin with, for whoever wants another one.
        "other_round": before.line.round if before else record.line.round + 1,
        "parent": record.run.parent_id,
        "assembled": record.kind == StepKind.ASSEMBLED,
    }
    return Panel(template="cache", context=context)
