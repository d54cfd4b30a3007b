"""How each status and each end of a run looks, and what to tell the reader about it."""

from __future__ import annotations

from dataclasses import dataclass

from llmcore.runs.outcome import EndReason, RunStatus
from playground.models import Run


@dataclass(frozen=True, slots=True)
class Look:
    """What makes a status or an end recognisable: always an icon and a word, and a class for its color."""

    word: str
    icon: str
    css: str


STATUS_LOOKS: dict[RunStatus, Look] = {
    RunStatus.QUEUED: Look("Queued", "clock", "queued"),
    RunStatus.RUNNING: Look("Running", "", "running"),
    RunStatus.AWAITING_APPROVAL: Look("Awaiting approval", "lock", "awaiting"),
    RunStatus.COMPLETED: Look("Done", "check", "done"),
    RunStatus.DRY_RUN: Look("Dry run", "eye", "dry"),
    RunStatus.INCOMPLETE: Look("Incomplete", "warn", "incomplete"),
    RunStatus.FAILED: Look("Failed", "error", "error"),
    RunStatus.CANCELLED: Look("Cancelled", "slash", "cancelled"),
    RunStatus.INTERRUPTED: Look("Interrupted", "bolt", "interrupted"),
}

END_LOOKS: dict[EndReason, Look] = {
    EndReason.COMPLETED: Look("Done", "check", "done"),
    EndReason.DRY_RUN: Look("Dry run", "eye", "dry"),
    EndReason.MAX_ROUNDS: Look("Round limit", "list", "rounds"),
    EndReason.TRUNCATED: Look("Cut off", "cut", "truncated"),
    EndReason.CONTENT_FILTERED: Look("Filtered", "shield", "filtered"),
    EndReason.EMPTY_ANSWER: Look("Empty answer", "empty", "empty"),
    EndReason.INVALID_ANSWER: Look("Invalid answer", "braces", "invalid"),
    EndReason.BUDGET_EXHAUSTED: Look("Budget used up", "tag", "budget"),
    EndReason.CONTEXT_EXHAUSTED: Look("Context full", "compress", "context"),
    EndReason.PROVIDER_FAILED: Look("Provider failed", "plug", "provider"),
    EndReason.CANCELLED: Look("Cancelled", "slash", "cancelled"),
    EndReason.HALTED: Look("Halted", "hand", "halted"),
    EndReason.APPROVAL_EXPIRED: Look("Approval expired", "lock", "expired"),
    EndReason.INTERRUPTED: Look("Interrupted", "bolt", "interrupted"),
    EndReason.INTERNAL_ERROR: Look("Internal error", "error", "error"),
}


def look_of(run: Run) -> Look:
    """The look of the end where the run has one, else of its status."""
    if run.reason:
        return END_LOOKS[EndReason(run.reason)]
    return STATUS_LOOKS[RunStatus(run.status)]
