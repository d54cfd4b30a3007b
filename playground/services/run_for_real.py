"""Starts what a dry run showed, as a real run of the same request."""

from __future__ import annotations

from dataclasses import replace

from django.contrib.auth.models import User

from llmcore.errors import ConfigurationError
from playground.models import Run
from playground.services.start_run import RunRequest, given_title, start_run


def why_not_for_real(run: Run) -> str:
    """Why `run` can't be made a real run as it is, in a sentence; empty where it can."""
    if not run.dry_run:
        return "This was no dry run."
    if run.contents_deleted_at is not None or run.redacted_at is not None:
        return "What this dry run was asked for is no longer stored as it was."
    return ""


def run_for_real(*, run: Run, by: User) -> Run:
    """A real run that asks for what the dry run `run` did, with what is stored now; it says whether it sends the same.

    ConfigurationError where that can't be started.
    """
    if reason := why_not_for_real(run):
        raise ConfigurationError(reason)
    asked = RunRequest.from_json(run.request)
    request = replace(asked, dry_run=False, title=given_title(run=run, request=asked))
    return start_run(request=request, by=by, parent=run)
