"""The list of runs as CSV, one row a run, read from the database piece by piece.

What people, models and tools wrote is masked where it looks like a secret, and can't become a formula in a spreadsheet.
The columns are described in docs/stored-runs.md.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from io import StringIO
from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.db.models.functions import Left

from llmcore import store
from llmcore.redaction import Redactor
from playground.access import visible_runs
from playground.filters import RunFilters, narrowed
from playground.models import Run

ROWS_AT_ONCE = 100
TEXT_CHARS = 1_000
# A secret that begins before the end of a text and goes on behind it is still recognized.
MARGIN_CHARS = 1_000
# Excel reads UTF-8 only where it begins with this.
BYTE_ORDER_MARK = "\ufeff"
# With what a spreadsheet begins a formula, in any width of its letters.
FORMULA_SIGNS = tuple("=+-@＝＋－＠")

Value = str | int | float | Decimal | datetime | None

COLUMNS: dict[str, Callable[[Any], Value]] = {
    "run": lambda run: run.pk,
    "created": lambda run: run.created_at,
    "started": lambda run: run.started_at,
    "ended": lambda run: run.ended_at,
    "user": lambda run: run.user.get_username() if run.user else "",
    "configuration": lambda run: run.configuration_name,
    "model": lambda run: run.model_name,
    "served_by": lambda run: run.served_by,
    "title": lambda run: run.title,
    "tags": lambda run: ", ".join(tag.name for tag in run.tags.all()),
    "note": lambda run: run.note_start,
    "status": lambda run: run.status,
    "outcome": lambda run: run.reason,
    "detail": lambda run: run.detail,
    "error": lambda run: (run.error or {}).get("message"),
    "dry_run": lambda run: int(run.dry_run),
    "rerun_of": lambda run: run.parent_id,
    "rounds": lambda run: run.rounds,
    "tool_calls": lambda run: run.tool_calls,
    "failed_tool_calls": lambda run: run.tool_errors,
    "denied_tool_calls": lambda run: run.tool_denials,
    "tools": lambda run: ", ".join(tool.name for tool in run.tools.all()),
    "input_tokens": lambda run: run.input_tokens,
    "cache_read_input_tokens": lambda run: run.cache_read_input_tokens,
    "cache_creation_input_tokens": lambda run: run.cache_creation_input_tokens,
    "output_tokens": lambda run: run.output_tokens,
    "reasoning_output_tokens": lambda run: run.reasoning_output_tokens,
    "largest_prompt_tokens": lambda run: run.context_peak,
    "cost_usd": lambda run: run.cost,
    "queue_ms": lambda run: run.queue_ms,
    "permit_ms": lambda run: run.permit_ms,
    "model_ms": lambda run: run.model_ms,
    "tool_ms": lambda run: run.tool_ms,
    "approval_ms": lambda run: run.approval_ms,
    "overhead_ms": lambda run: run.overhead_ms,
    "wall_ms": lambda run: run.wall_ms,
    "prompt": lambda run: run.prompt_start,
    "answer": lambda run: run.answer_start,
}
NOT_SHOWN = ("prompt", "answer", "note", "plan", "request", "findings")


def export_list(
    *, user: User, filters: RunFilters, run_ids: Collection[int] | None = None, now: datetime
) -> Iterator[str]:
    """Pieces of the file: all runs that `user` may see and that pass the filters, or those of `run_ids`; newest first.

    Between two pieces nothing is held open, so the runs that come while it is read are left out by their ids.
    """
    runs = visible_runs(user) if run_ids is None else visible_runs(user).filter(pk__in=run_ids)
    runs = narrowed(runs, filters, user=user, now=now)
    redactor = store.site_redactor()
    yield BYTE_ORDER_MARK + lines([COLUMNS])
    for rows in pieces(runs):
        yield lines([cell(value(run), redactor) for value in COLUMNS.values()] for run in rows)


def pieces(runs: QuerySet[Run]) -> Iterator[Sequence[Run]]:
    runs = (
        runs.order_by("-pk")
        .select_related("user")
        .prefetch_related("tags", "tools")
        .defer(*NOT_SHOWN)
        .annotate(
            prompt_start=Left("prompt", TEXT_CHARS + MARGIN_CHARS),
            answer_start=Left("answer", TEXT_CHARS + MARGIN_CHARS),
            note_start=Left("note", TEXT_CHARS + MARGIN_CHARS),
        )
    )
    rows = list(runs[:ROWS_AT_ONCE])
    while rows:
        yield rows
        rows = list(runs.filter(pk__lt=rows[-1].pk)[:ROWS_AT_ONCE])


def lines(rows: Iterable[Iterable[str]]) -> str:
    out = StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()


def cell(value: Value, redactor: Redactor) -> str:
    match value:
        case None:
            return ""
        case str():
            return harmless(shortened(redactor.patterns(value[: TEXT_CHARS + MARGIN_CHARS])))
        case datetime():
            return value.isoformat(timespec="seconds")
        case Decimal():
            return f"{value:f}"
        case float():
            return f"{value:.1f}"
    return str(value)


def shortened(text: str) -> str:
    return text if len(text) <= TEXT_CHARS else text[: TEXT_CHARS - 1] + "…"


def harmless(text: str) -> str:
    """`text` as a spreadsheet shows it, and never computes it."""
    is_formula = text.lstrip().startswith(FORMULA_SIGNS) or text.startswith(("\t", "\r"))
    return f"'{text}" if is_formula else text
