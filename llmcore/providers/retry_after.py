"""How long a server asks to wait before the next attempt, and whether it wants one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds, from `retry-after-ms`, or from `Retry-After` as a number or an HTTP date; never negative."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "")
    seconds = _number(value)
    return _until(value, now) if seconds is None else seconds


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """OpenAI says so outright in a header; `None` where it doesn't."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return max(value, 0.0) if math.isfinite(value) else None


def _until(text: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max((moment - now).total_seconds(), 0.0)
