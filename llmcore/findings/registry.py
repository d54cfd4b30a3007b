"""The findings that exist. Each is a small pure function over a run; a module is registered by being imported."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TypeVar

from llmcore.findings.finding import Finding, Severity
from llmcore.findings.view import RunView

logger = logging.getLogger(__name__)

S = TypeVar("S")
T = TypeVar("T")

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
    found = collect(finders, view, what="finding")
    return sorted(found, key=lambda finding: (RANK[finding.severity], finding.sequence or 0))


def collect(functions: Iterable[Callable[[S], Iterable[T]]], subject: S, *, what: str) -> list[T]:
    """All that the functions have to say of `subject`, of each a bounded number. It is an opinion: a fault in one of
    them, logged as that of a `what`, must not cost more than what it had to say."""
    found: list[T] = []
    for function in functions:
        try:
            found.extend(islice(function(subject), MAX_PER_FINDER))
        except Exception:
            logger.exception("the %s %s failed", what, getattr(function, "__name__", function))
    return found
