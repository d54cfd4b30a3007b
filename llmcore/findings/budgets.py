"""Findings about budgets that a run brought near their limits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any

from llmcore.budgets.base import Measure, Period, moment, spelled
from llmcore.findings.compaction import compaction_finding
from llmcore.findings.finding import Finding, Severity, bounded
from llmcore.findings.registry import finder
from llmcore.findings.view import RunView
from llmcore.messages import JSON

_SEVERITIES = {70: Severity.NOTE, 90: Severity.WARNING, 100: Severity.ERROR}
_PERIODS = {Period.DAY: "today's", Period.MONTH: "this month's"}


@finder
def budget_near_its_limit(view: RunView) -> Iterator[Finding]:
    """One for each limit of a budget, at the call that brought it furthest."""
    furthest: dict[tuple[str, str], Finding] = {}
    calls = [(call.request.sequence, call.got, call.finding, "tokens") for call in view.rounds]
    calls += [(step.sequence, step.data, partial(compaction_finding, step), "summary") for step in view.compactions]
    for _, data, finding, tab in sorted(calls, key=lambda call: call[0]):
        for crossing in data.get("budgets") or ():
            furthest[crossing["name"], crossing["measure"]] = finding(**_told(crossing), tab=tab)
    yield from furthest.values()


def _told(crossing: dict[str, JSON]) -> dict[str, Any]:
    percent = int(crossing["percent"])
    return {
        "id": "budget_near_limit",
        "severity": _SEVERITIES.get(percent, Severity.NOTE),
        "title": f"This run brought {_whose(crossing)} to {percent} % of its {crossing['measure']}",
        "detail": _detail(crossing),
        "impact": f"{percent} % used",
    }


def _whose(crossing: dict[str, JSON]) -> str:
    if not crossing["name"]:
        return "what one run may use"
    return f"{_PERIODS[Period(crossing['period'])]} budget “{bounded(crossing['name'], 100)}”"


def _detail(crossing: dict[str, JSON]) -> str:
    measure = Measure(crossing["measure"])
    used, limit = (
        spelled(measure, Decimal(crossing[name]) if measure is Measure.COST else int(crossing[name]))
        for name in ("used", "limit")
    )
    renewal = crossing.get("renews_at")
    anew = f" It begins anew on {moment(datetime.fromisoformat(renewal))}." if renewal else ""
    return f"{used} of {limit} are used. A run ends before the call that might not fit.{anew}"
