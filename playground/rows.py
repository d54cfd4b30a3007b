"""A recorded trace as rows, and rows as the trace's values."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import JSONField, Value

from llmcore.messages import JSON, canonical_json
from llmcore.trace import RunStep, StepKind, WireExchange
from playground import models


def step_row(run_id: int, step: RunStep, data: JSON) -> models.RunStep:
    return models.RunStep(
        run_id=run_id,
        sequence=step.sequence,
        round=step.round,
        kind=step.kind.value,
        started_ms=step.started_ms,
        duration_ms=step.duration_ms,
        data=data,
    )


def step_value(row: models.RunStep) -> RunStep:
    return RunStep(
        sequence=row.sequence,
        round=row.round,
        kind=StepKind(row.kind),
        started_ms=row.started_ms,
        duration_ms=row.duration_ms,
        data=row.data,
    )


def content_row(run_id: int, digest: str, value: JSON) -> models.RunContent:
    size = len(canonical_json(value).encode("utf-8", "surrogatepass"))
    return models.RunContent(run_id=run_id, digest=digest, size=size, value=value)


def deleted_content_row(run_id: int, digest: str, size: int) -> models.RunContent:
    """What is left of a content that was deleted."""
    return models.RunContent(run_id=run_id, digest=digest, size=size, value=Value(None, JSONField()))


def exchange_row(run_id: int, sequence: int, exchange: WireExchange) -> models.WireExchangeRecord:
    return models.WireExchangeRecord(
        run_id=run_id,
        sequence=sequence,
        attempt=exchange.attempt,
        method=exchange.method,
        url=exchange.url,
        request_headers=dict(exchange.request_headers),
        request_body=exchange.request_body,
        status=exchange.status,
        response_headers=dict(exchange.response_headers),
        response_body=exchange.response_body,
        chunk_times=[[ms, len(chunk)] for ms, chunk in exchange.chunks],
        error=exchange.error or "",
    )


def tool_rows(run_id: int, names: Iterable[str]) -> list[models.RunTool]:
    return [models.RunTool(run_id=run_id, name=name) for name in sorted(set(names))]


def load_steps(run_id: int) -> list[RunStep]:
    return [step_value(row) for row in models.RunStep.objects.filter(run_id=run_id).order_by("sequence")]


def load_contents(run_id: int, digests: Iterable[str] | None = None) -> dict[str, JSON]:
    """The contents of a run by digest: all, or those named."""
    rows = models.RunContent.objects.filter(run_id=run_id)
    if digests is not None:
        rows = rows.filter(digest__in=list(digests))
    return dict(rows.values_list("digest", "value"))
