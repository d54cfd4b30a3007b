"""Proposed actions of a run that waits: their rows and steps. Who calls these has locked the row of the run."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db.models import F

from llmcore import store
from llmcore.actions.proposals import DecisionKind, Proposal
from llmcore.conf import settings
from llmcore.messages import digest_of
from llmcore.trace import ActionData, StepKind
from playground.figures import milliseconds
from playground.models import DecisionRecord, ProposedAction, Run, RunContent, RunStep
from playground.rows import content_row


def write_proposed(*, run_id: int, proposal: Proposal, now: datetime) -> None:
    """A row for each action of `proposal`, which the run's newest steps have recorded."""
    # A worker that was lost may have proposed the same before: its newest step is the one that counts.
    steps = RunStep.objects.filter(run_id=run_id, kind=StepKind.ACTION).order_by("sequence")
    newest = {step.data["call_id"]: step for step in steps if step.data["event"] == "proposed"}
    rows = [_row(run_id, newest[action.call.id], now) for action in proposal.actions]
    ProposedAction.objects.bulk_create(rows)


def _row(run_id: int, step: RunStep, now: datetime) -> ProposedAction:
    data = step.data
    return ProposedAction(
        run_id=run_id,
        sequence=step.sequence,
        round=step.round,
        call_id=data["call_id"],
        tool=data["name"][:200],
        kind=data["kind"],
        position=data["position"],
        calls=data["calls"],
        turn_digest=data["digest"],
        key=data["key"],
        proposal=data["action"],
        rule=data["rule"][:200],
        proposed_at=now,
        expires_at=now + timedelta(seconds=settings.LLM_APPROVAL_EXPIRY_S),
    )


def close_waiting(run: Run, kind: DecisionKind, *, by: User | None, now: datetime) -> list[ProposedAction]:
    """Close all actions of `run` that still wait."""
    waiting = list(ProposedAction.objects.filter(run=run, decision=""))
    for action in waiting:
        close_action(run, action, kind, by=by, now=now)
    return waiting


def close_action(
    run: Run,
    action: ProposedAction,
    kind: DecisionKind,
    *,
    by: User | None,
    now: datetime,
    reason: str = "",
    again: bool = False,
) -> bool:
    """Write down what became of a waiting action: its row, the step that the run goes on from, and the audit.
    False, and nothing is written, where something became of it before."""
    said = str(store.site_redactor().stored(reason))
    digest = digest_of(said) if said else ""
    waiting = ProposedAction.objects.filter(pk=action.pk, decision="")
    if not waiting.update(decision=kind, decided_at=now, decided_by=by, reason=digest, again=again):
        return False
    if digest:
        RunContent.objects.bulk_create([content_row(run.pk, digest, said)], ignore_conflicts=True)
    _write_step(run, action, kind, by=by, now=now, reason=digest or None, again=again)
    audit(
        kind,
        by=by,
        at=now,
        run_id=run.pk,
        call_id=action.call_id,
        tool=action.tool,
        rule=action.rule,
        turn_digest=action.turn_digest,
        key=action.key,
        again=again,
    )
    return True


def audit(kind: DecisionKind, *, by: User | None, at: datetime, **about: Any) -> None:
    """Add to the record of decisions, which is never changed: `about` are its columns that say what it was about."""
    DecisionRecord.objects.create(
        at=at,
        decision=kind,
        user_id=str(by.pk) if by else None,
        username=by.get_username() if by else "",
        **about,
    )


def _write_step(
    run: Run,
    action: ProposedAction,
    kind: DecisionKind,
    *,
    by: User | None,
    now: datetime,
    reason: str | None,
    again: bool,
) -> None:
    """No worker drives a run that waits: whoever holds its row is the one writer of its steps."""
    data = ActionData(
        event="decided",
        call_id=action.call_id,
        name=action.tool,
        digest=action.turn_digest,
        key=action.key,
        kind=action.kind,
        rule=action.rule,
        position=action.position,
        calls=action.calls,
        decision=kind.value,
        by=by.get_username() if by else "",
        reason=reason,
        again=again,
    )
    proposed = RunStep.objects.get(run=run, sequence=action.sequence)
    run.last_sequence += 1
    RunStep.objects.create(
        run=run,
        sequence=run.last_sequence,
        round=action.round,
        kind=StepKind.ACTION,
        started_ms=proposed.started_ms,
        duration_ms=round(max(milliseconds(now - action.proposed_at), 0.0), 3),
        data=data,
    )
    Run.objects.filter(pk=run.pk).update(last_sequence=run.last_sequence, revision=F("revision") + 1)


def names_of(actions: Iterable[ProposedAction]) -> str:
    return ", ".join(f"“{name}”" for name in dict.fromkeys(action.tool for action in actions))
