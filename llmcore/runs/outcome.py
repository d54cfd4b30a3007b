"""How a run stands and how it ended: two fields, status and reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from llmcore.errors import ProviderError


class RunStatus(StrEnum):
    """Where a run is in its life. The last six are ends."""

    QUEUED = "queued"
    RUNNING = "running"
    AWAITING_APPROVAL = "awaiting_approval"
    COMPLETED = "completed"
    DRY_RUN = "dry_run"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


class EndReason(StrEnum):
    """Why a run ended."""

    COMPLETED = "completed"
    DRY_RUN = "dry_run"
    MAX_ROUNDS = "max_rounds"
    TRUNCATED = "truncated"
    CONTENT_FILTERED = "content_filtered"
    EMPTY_ANSWER = "empty_answer"
    INVALID_ANSWER = "invalid_answer"
    BUDGET_EXHAUSTED = "budget_exhausted"
    CONTEXT_EXHAUSTED = "context_exhausted"
    PROVIDER_FAILED = "provider_failed"
    CANCELLED = "cancelled"
    HALTED = "halted"
    APPROVAL_EXPIRED = "approval_expired"
    INTERRUPTED = "interrupted"
    INTERNAL_ERROR = "internal_error"


STATUS_OF: dict[EndReason, RunStatus] = {
    EndReason.COMPLETED: RunStatus.COMPLETED,
    EndReason.DRY_RUN: RunStatus.DRY_RUN,
    EndReason.MAX_ROUNDS: RunStatus.INCOMPLETE,
    EndReason.TRUNCATED: RunStatus.INCOMPLETE,
    EndReason.CONTENT_FILTERED: RunStatus.INCOMPLETE,
    EndReason.EMPTY_ANSWER: RunStatus.INCOMPLETE,
    EndReason.INVALID_ANSWER: RunStatus.INCOMPLETE,
    EndReason.BUDGET_EXHAUSTED: RunStatus.INCOMPLETE,
    EndReason.CONTEXT_EXHAUSTED: RunStatus.INCOMPLETE,
    EndReason.PROVIDER_FAILED: RunStatus.FAILED,
    EndReason.CANCELLED: RunStatus.CANCELLED,
    EndReason.HALTED: RunStatus.INCOMPLETE,
    EndReason.APPROVAL_EXPIRED: RunStatus.INCOMPLETE,
    EndReason.INTERRUPTED: RunStatus.INTERRUPTED,
    EndReason.INTERNAL_ERROR: RunStatus.FAILED,
}

# Exit status of `manage.py llm_run`; 1 and 2 are left to Python and Django (crash, bad usage).
EXIT_CODE_OF: dict[EndReason, int] = {
    EndReason.COMPLETED: 0,
    EndReason.DRY_RUN: 0,
    EndReason.MAX_ROUNDS: 10,
    EndReason.TRUNCATED: 11,
    EndReason.CONTENT_FILTERED: 12,
    EndReason.EMPTY_ANSWER: 13,
    EndReason.BUDGET_EXHAUSTED: 14,
    EndReason.CONTEXT_EXHAUSTED: 15,
    EndReason.PROVIDER_FAILED: 16,
    EndReason.CANCELLED: 17,
    EndReason.HALTED: 18,
    EndReason.APPROVAL_EXPIRED: 19,
    EndReason.INTERRUPTED: 20,
    EndReason.INTERNAL_ERROR: 21,
    EndReason.INVALID_ANSWER: 23,
}

# The run has no end yet: it waits for a decision about a proposed action.
EXIT_CODE_WAITING = 22


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The end of a run. `detail` is one sentence for people, `answer` the final text as far as there is one."""

    reason: EndReason
    detail: str = ""
    answer: str = ""
    error: ProviderError | None = None

    @property
    def status(self) -> RunStatus:
        return STATUS_OF[self.reason]
