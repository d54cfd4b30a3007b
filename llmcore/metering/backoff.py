"""Whether a failed attempt is followed by another one, and after which wait."""

from __future__ import annotations

from collections.abc import Callable

from llmcore.errors import RETRYABLE_STATUSES, ErrorKind, ProviderError

FIRST_WAIT_S = 0.5
MAX_WAIT_S = 8.0
# A server that asks for more than this is better tried again by a person.
MAX_ASKED_WAIT_S = 120.0
RETRIED_KINDS = frozenset({ErrorKind.CONNECTION, ErrorKind.TIMEOUT, ErrorKind.STREAM_INCOMPLETE})


def is_passing(error: ProviderError) -> bool:
    """Whether the failure is one that the same request may not meet again."""
    return error.retryable and (error.status in RETRYABLE_STATUSES or error.kind in RETRIED_KINDS)


def wait_after(error: ProviderError, attempt: int, remaining_s: float, jitter: Callable[[], float]) -> float | None:
    """Seconds to wait after `attempt` (from 1) failed; `None` where the wait would be too long.

    What the server asked for is kept to; jitter only lengthens it, so that many callers don't come back at once.
    """
    if error.retry_after_s is not None:
        wait = error.retry_after_s * (1 + 0.1 * jitter())
        return wait if wait <= min(MAX_ASKED_WAIT_S, remaining_s) else None
    wait = min(FIRST_WAIT_S * 2 ** (attempt - 1), MAX_WAIT_S) * (0.5 + 0.5 * jitter())
    return wait if wait <= remaining_s else None
