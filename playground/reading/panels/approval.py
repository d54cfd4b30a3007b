"""Approval: what a call would do, why a person was asked, and what became of it."""

from __future__ import annotations

from django.utils import timezone

from playground.models import ProposedAction
from playground.reading.approvals import cards_of
from playground.reading.boxes import json_box, text_box
from playground.reading.described import describe
from playground.reading.panels.base import Panel, Query, Tab, boxes_of
from playground.reading.step_record import StepRecord


def tabs(record: StepRecord) -> list[Tab]:
    return [Tab(slug="approval", title="Approval", read=read), Tab(slug="raw", title="Raw", read=read_raw)]


def read(record: StepRecord, query: Query) -> Panel:
    proposed, decided = record.first, record.end if record.end is not record.first else None
    content = record.content(proposed.data["action"]) if proposed.data.get("action") else None
    said = record.content(decided.data["reason"]) if decided and decided.data.get("reason") else None
    reason = text_box("reason", "Reason, as the model got it", str(said)) if said else None
    action = (
        ProposedAction.objects.select_related("decided_by").filter(run=record.run, sequence=proposed.sequence).first()
    )
    cards = cards_of(record.run, [action], user=record.user, now=timezone.now()) if action else []
    context = {
        "run": record.run,
        "data": proposed.data,
        "proposed_step": proposed.sequence,
        "decided": decided.data if decided else None,
        "decided_at": action.decided_at if action else None,
        "described": describe(content),
        "card": cards[0] if cards else None,
        "reason": reason,
    }
    return Panel(template="approval", context=context, boxes=boxes_of([reason]))


def read_raw(record: StepRecord, query: Query) -> Panel:
    boxes = [json_box("proposed", "Proposal step", dict(record.first.data))]
    if record.end is not None and record.end is not record.first:
        boxes.append(json_box("decided", "Decision step", dict(record.end.data)))
    if record.first.data.get("action") and (content := record.content(record.first.data["action"])):
        boxes.append(json_box("action", "What it would do", content))
    return Panel(template="boxes", context={"boxes": boxes}, boxes=tuple(boxes))
