"""The findings that exist. Each is a small pure function over a run; a module is registered by being imported."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from llmcore.findings.finding import Finding, Severity
from llmcore.findings.view import RunView

logger = logging.getLogger(__name__)

Finder = Callable[[RunView], Iterable[Finding]]

# A run of a thousand rounds can repeat a problem as often; a list that long explains nothing.
MAX_PER_FINDER = 10

_finders: list[Finder] = []
RANK = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


def finder(function: Finder) -> Finder:
    """Register a function that looks for one kind of problem. It must be linear in the number of steps."""
    _finders.append(function)
    return function


def find(view: RunView, finders: Sequence[Finder] = _finders) -> list[Finding]:
    """The problems of a run, the gravest first, those of one severity in the order of their steps."""
    found: list[Finding] = []
    for function in finders:
        try:
            found.extend(islice(function(view), MAX_PER_FINDER))
        except Exception:
            # A finding is an opinion on a run; a fault in it must not cost the run its end.
            logger.exception("the finding %s failed", function.__name__)
    return sorted(found, key=lambda finding: (RANK[finding.severity], finding.sequence or 0))
