"""When budgets begin anew: at midnight in the site's time zone."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, tzinfo

from llmcore.budgets.base import Period


def begin_of(period: Period, now: datetime, zone: tzinfo) -> date:
    """The first day of the period that `now` (aware) lies in."""
    today = now.astimezone(zone).date()
    return today if period is Period.DAY else today.replace(day=1)


def renewal_of(period: Period, begins_on: date, zone: tzinfo) -> datetime:
    """When the one after it begins."""
    if period is Period.DAY:
        following = begins_on + timedelta(days=1)
    else:
        following = (begins_on + timedelta(days=31)).replace(day=1)
    return datetime.combine(following, time.min, tzinfo=zone)
