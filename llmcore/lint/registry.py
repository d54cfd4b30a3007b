"""The checks that exist. Each is a small pure function over a draft; a module is registered by being imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from llmcore.findings.registry import RANK, collect
from llmcore.lint.draft import Draft
from llmcore.lint.notice import Notice

Check = Callable[[Draft], Iterable[Notice]]

_checks: list[Check] = []


def check(function: Check) -> Check:
    """Register a function that looks for one kind of problem. It runs after each pause in typing: it must be quick."""
    _checks.append(function)
    return function


def look_over(draft: Draft, checks: Sequence[Check] = _checks) -> list[Notice]:
    """The notices about a request, the gravest first."""
    return sorted(collect(checks, draft, what="check"), key=lambda notice: RANK[notice.severity])
