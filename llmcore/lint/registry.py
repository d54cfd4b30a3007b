"""The checks that exist. Each is a small pure function over a draft; a module is registered by being imported."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from llmcore.findings.registry import MAX_PER_FINDER, RANK
from llmcore.lint.draft import Draft
from llmcore.lint.notice import Notice

logger = logging.getLogger(__name__)

Check = Callable[[Draft], Iterable[Notice]]

_checks: list[Check] = []


def check(function: Check) -> Check:
    """Register a function that looks for one kind of problem. It runs after each pause in typing: it must be quick."""
    _checks.append(function)
    return function


def look_over(draft: Draft, checks: Sequence[Check] = _checks) -> list[Notice]:
    """The notices about a request, the gravest first."""
    found: list[Notice] = []
    for function in checks:
        try:
            found.extend(islice(function(draft), MAX_PER_FINDER))
        except Exception:
            # A notice is an opinion on a request; a fault in it must not cost the preview.
            logger.exception("the check %s failed", function.__name__)
    return sorted(found, key=lambda notice: RANK[notice.severity])
