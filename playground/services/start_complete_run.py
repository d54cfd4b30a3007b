"""Starts a run that lacks nothing."""

from __future__ import annotations

from django.contrib.auth.models import User

from llmcore import store
from playground.models import Run
from playground.services.prepare_run import Found, refuse_unresolved
from playground.services.start_run import RunRequest, start_run


def start_complete_run(*, request: RunRequest, by: User, parent: Run | None = None, found: Found | None = None) -> Run:
    """As `start_run`; but where a variable lacks its value, or a prompt of a pack can't be made of what it was given,
    nothing is written: UnresolvedVariables, or another ConfigurationError, says what is missing."""
    redactor = store.site_redactor()
    refuse_unresolved(request, found, redactor)
    loaded = found.configuration if found else None
    return start_run(request=request, by=by, parent=parent, loaded=loaded, redactor=redactor)
