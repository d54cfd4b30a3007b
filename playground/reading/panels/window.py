"""Context: where the model's window went with this request."""

from __future__ import annotations

from llmcore.context.budget import WindowUse
from playground.numbers import tokens
from playground.reading.panels.base import Panel, Query, Tab
from playground.reading.step_record import StepRecord
from playground.reading.window_bar import WindowBar


def tabs(record: StepRecord) -> list[Tab]:
    """None for a request of a run that was recorded before this was kept account of."""
    return [Tab(slug="context", title="Context", read=read)] if record.context else []


def read(record: StepRecord, query: Query) -> Panel:
    assert record.context is not None
    window = WindowBar(WindowUse.from_json(record.context.data))
    return Panel(template="window", context={"window": window, "counted": counted(record, window.use)})


def counted(record: StepRecord, use: WindowUse) -> str:
    """How the figures came about, in sentences."""
    how = record.plan.estimator.how
    if not use.counted:
        return how
    return f"The provider counted {tokens(use.counted)} of it with the round before; the rest is estimated. {how}"
