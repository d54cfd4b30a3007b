"""Whether a run sent what the dry run showed that it was started from, and where not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llmcore.prompts.layout import Difference, first_difference
from llmcore.trace import StepKind
from playground.access import may_see
from playground.models import Run, RunStep
from playground.reading.exact_body import built_body, layout_of, may_build, stored_body
from playground.reading.step_record import StepRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRunMatch:
    """How the first request of a run compares with the dry run `dry`. `difference` is `None` where they are the same,
    and where it can't be told: `sizes` are always known."""

    dry: Run
    same: bool
    visible: bool
    sizes: tuple[int, int] = (0, 0)
    difference: Difference | None = None


def matches_dry_run(run: Run, dry: Run | None, *, user: Any) -> DryRunMatch | None:
    """By the hashes alone, which are always kept. `dry` is its `dry_run_of`; `None` for a run that was started
    otherwise or has sent nothing."""
    if dry is None:
        return None
    shown, sent = (_first_request(one) for one in (dry, run))
    if shown is None or sent is None:
        return None
    return DryRunMatch(
        dry=dry,
        same=shown["body_sha256"] == sent["body_sha256"],
        visible=may_see(user, dry),
        sizes=(shown["body_bytes"], sent["body_bytes"]),
    )


def match_of_request(record: StepRecord) -> DryRunMatch | None:
    """As `matches_dry_run`, with the first difference where both bodies can be had. `None` for any other request than
    the first."""
    if record.kind != StepKind.REQUEST or record.request_before() is not None:
        return None
    match = matches_dry_run(record.run, dry_run_of(record.run, parent_of(record.run)), user=record.user)
    if match is None or match.same or not match.visible:
        return match
    return DryRunMatch(
        dry=match.dry, same=False, visible=True, sizes=match.sizes, difference=_difference(match.dry, record)
    )


def _difference(dry: Run, record: StepRecord) -> Difference | None:
    step = RunStep.objects.filter(run=dry, kind=StepKind.ASSEMBLED.value).values_list("sequence", flat=True).first()
    if step is None or not may_build(record):
        return None
    shown = StepRecord(dry, step, user=record.user)
    if stored_body(shown) is None or (stored_body(record) or built_body(record)) is None:
        return None
    then, now = layout_of(shown), layout_of(record)
    return first_difference(then, now) if then and now else None


def parent_of(run: Run) -> Run | None:
    """The run that this one was made from, without what is large of it."""
    return Run.objects.only("user", "dry_run").filter(pk=run.parent_id).first() if run.parent_id else None


def dry_run_of(run: Run, parent: Run | None) -> Run | None:
    """The dry run that this one was started from."""
    return parent if parent is not None and parent.dry_run and not run.dry_run else None


def _first_request(run: Run) -> dict[str, Any] | None:
    kinds = (StepKind.ASSEMBLED.value, StepKind.REQUEST.value)
    steps = RunStep.objects.filter(run=run, kind__in=kinds).order_by("sequence")
    data: dict[str, Any] | None = steps.values_list("data", flat=True).first()
    return data
