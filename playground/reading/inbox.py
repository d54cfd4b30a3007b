"""The list of proposed actions: those that wait, the most urgent first, and what was decided last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import Any

from django.db.models import QuerySet
from django.urls import reverse

from playground.access import (
    decidable_count,
    visible_engine_actions,
    visible_runs,
    why_not_decide_engine,
    why_not_decide_seen,
)
from playground.models import EngineAction, ProposedAction, RunContent
from playground.reading.approvals import STATES
from playground.reading.described import describe, summary_of

MOST_WAITING = 200
MOST_DECIDED = 25
LARGE = ("run__prompt", "run__request", "run__answer", "run__findings", "run__error", "run__note")


@dataclass(frozen=True, kw_only=True, slots=True)
class InboxRow:
    """A proposed action on one line: of the run, or of the session of another engine, that `title` names, whose page
    is at `place`. `url` is where the action itself stands."""

    action: ProposedAction | EngineAction
    title: str
    whose: str
    place: str
    url: str
    summary: str
    refusal: str
    expired: bool

    @property
    def badge(self) -> str:
        return STATES[self.action.decision][1]

    @property
    def badge_css(self) -> str:
        return STATES[self.action.decision][3]


def read_inbox(*, user: Any, now: datetime) -> dict[str, Any]:
    related = ("run__user", "run__configuration", "decided_by")
    of_runs = ProposedAction.objects.filter(run__in=visible_runs(user)).select_related(*related).defer(*LARGE)
    of_engines = visible_engine_actions(user).select_related("user", "configuration", "decided_by")
    sources: tuple[QuerySet[Any], ...] = (of_runs, of_engines)
    waiting = [list(rows.filter(decision="").order_by("expires_at", "pk")[:MOST_WAITING]) for rows in sources]
    decided = [list(rows.exclude(decision="").order_by("-decided_at", "-pk")[:MOST_DECIDED]) for rows in sources]
    urgent = islice(merge(*waiting, key=lambda action: action.expires_at), MOST_WAITING)
    latest = islice(merge(*decided, key=lambda action: action.decided_at, reverse=True), MOST_DECIDED)
    contents = _contents([*waiting[0], *decided[0]])
    return {
        "waiting": [_row(action, contents, user, now) for action in urgent],
        "decided": [_row(action, contents, user, now) for action in latest],
        "count": decidable_count(user),
    }


def _row(
    action: ProposedAction | EngineAction, contents: Mapping[tuple[int, str], Any], user: Any, now: datetime
) -> InboxRow:
    if isinstance(action, EngineAction):
        place = url = reverse("playground:engine_action", args=[action.pk])
        title, owner, content = f"Session {action.session}", action.user, action.content
        refusal = why_not_decide_engine(user, action) if action.waits else ""
    else:
        place = reverse("playground:run", args=[action.run_id])
        url = f"{place}#action-{action.pk}" if action.waits else f"{place}#step-{action.sequence}"
        title, owner, content = action.run.title, action.run.user, contents.get((action.run_id, action.proposal))
        refusal = why_not_decide_seen(user, action.run, action) if action.waits else ""
    described = describe(content)
    return InboxRow(
        action=action,
        title=title,
        whose=owner.get_username() if owner else "",
        place=place,
        url=url,
        summary="" if described.gone else summary_of(described),
        refusal=refusal,
        expired=action.waits and action.expires_at <= now,
    )


def _contents(actions: Iterable[ProposedAction]) -> dict[tuple[int, str], Any]:
    actions = list(actions)
    rows = RunContent.objects.filter(
        run__in={action.run_id for action in actions}, digest__in={action.proposal for action in actions}
    )
    return {(run_id, digest): value for run_id, digest, value in rows.values_list("run_id", "digest", "value")}
