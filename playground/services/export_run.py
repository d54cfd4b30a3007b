"""A whole run as JSON, and back: what is exported can be read in again without loss."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import DataError, IntegrityError, models, transaction

from llmcore import store
from llmcore.messages import JSON
from llmcore.models import Configuration
from llmcore.runs.outcome import STATUS_OF, EndReason
from llmcore.trace import RunStep
from playground.deletions import deletions
from playground.models import Run, RunTag, WireExchangeRecord
from playground.rows import content_row, deleted_content_row, load_contents, load_steps, step_row, tool_rows
from playground.search import index_run
from playground.search.steps import SearchableSteps

FORMAT = "llm-playground-run/1"
# Rows of other tables have other numbers elsewhere; a claim means nothing there.
LEFT_OUT = frozenset({"id", "user", "configuration", "parent", "cancelled_by", "worker", "lease_until", "revision"})
RUN_FIELDS = [field for field in Run._meta.concrete_fields if field.name not in LEFT_OUT]
EXCHANGE_FIELDS = [field for field in WireExchangeRecord._meta.concrete_fields if field.name not in ("id", "run")]


def export_run(*, run: Run, raw: bool = False) -> dict[str, JSON]:
    """Everything that is known about `run`; with `raw` the captured requests and responses too.

    Whatever looks like a secret is masked: `redacted` names the contents that this changed, which their digests don't
    fit any more. `deleted` says what is not there and why; of deleted contents `sizes` has the bytes.
    """
    gone = run.contents_deleted_at is not None
    contents = {} if gone else load_contents(run.pk)
    redactor = store.site_redactor()
    masked = {digest: redactor.deep(value, patterns=True) for digest, value in contents.items()}
    data = {
        "run": {field.name: to_json(field, run) for field in RUN_FIELDS},
        "configuration": run.configuration.slug if run.configuration else None,
        "tags": [tag.name for tag in run.tags.all()],
        "steps": [step.to_json() for step in load_steps(run.pk)],
    }
    exported: dict[str, JSON] = {
        "format": FORMAT,
        **redactor.deep(data, patterns=True),
        "contents": masked,
        "sizes": dict(run.contents.values_list("digest", "size")) if gone else {},
        "deleted": deletions(run),
        "redacted": sorted(digest for digest, value in contents.items() if masked[digest] != value),
    }
    if raw:
        # Masked when it was captured; a pattern applied to a body would change its length.
        exported["exchanges"] = [
            {field.name: to_json(field, row) for field in EXCHANGE_FIELDS} for row in run.exchanges.all()
        ]
    return exported


@transaction.atomic
def import_run(*, data: Mapping[str, JSON], by: User | None) -> Run:
    """A new run from what `export_run` gave of one that had ended; ValueError where it isn't such an export."""
    if data.get("format") != FORMAT:
        raise ValueError(f"this is no exported run: its format is {data.get('format')!r}, not {FORMAT!r}")
    try:
        return _imported(data, by)
    except (LookupError, TypeError, AttributeError, OverflowError, ValidationError, IntegrityError, DataError) as error:
        raise ValueError(f"this exported run is damaged: {type(error).__name__}: {error}") from error


def _imported(data: Mapping[str, JSON], by: User | None) -> Run:
    reason = EndReason(data["run"]["reason"])
    if data["run"]["status"] != STATUS_OF[reason] or not data["run"]["ended_at"]:
        raise ValueError("this run had not ended when it was exported: no worker here would ever end it")
    run = Run(
        user=by,
        configuration=Configuration.objects.filter(slug=data["configuration"]).first(),
        # What a run has now and had not then is as it is by default.
        **{field.name: from_json(field, data["run"][field.name]) for field in RUN_FIELDS if field.name in data["run"]},
    )
    run.save()
    # The time of creation is set when a row is saved first.
    Run.objects.filter(pk=run.pk).update(created_at=data["run"]["created_at"])
    steps = [RunStep.from_json(step) for step in data["steps"]]
    run.steps.bulk_create(step_row(run.pk, step, step.data) for step in steps)
    run.tools.bulk_create(tool_rows(run.pk, SearchableSteps(steps).tools))
    run.tags.bulk_create(RunTag(run=run, name=name) for name in data["tags"])
    run.contents.bulk_create(content_row(run.pk, digest, value) for digest, value in data["contents"].items())
    run.contents.bulk_create(deleted_content_row(run.pk, *item) for item in data.get("sizes", {}).items())
    run.exchanges.bulk_create(
        WireExchangeRecord(run=run, **{field.name: from_json(field, row[field.name]) for field in EXCHANGE_FIELDS})
        for row in data.get("exchanges", ())
    )
    index_run(run.pk)
    run.refresh_from_db()
    return run


def to_json(field: models.Field[Any, Any], row: models.Model) -> JSON:
    value: Any = getattr(row, field.attname)
    match field:
        case models.BinaryField():
            return b64encode(value).decode()
        case models.DateTimeField():
            return None if value is None else value.isoformat()
        case models.DecimalField():
            return None if value is None else str(value)
    return value


def from_json(field: models.Field[Any, Any], value: JSON) -> Any:
    match field:
        case models.BinaryField():
            return b64decode(value)
        case models.JSONField():
            return value
    return field.to_python(value)
